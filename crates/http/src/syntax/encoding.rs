//! `Accept-Encoding` and the choice of a content coding (RFC 9110, 12.5.3).

use crate::message::{Encoding, Fields};

/// A content coding of a stored file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// The file itself.
    Identity,
    /// Brotli, in a sibling ending in `.br`.
    Brotli,
    /// Zstandard, in a sibling ending in `.zst`.
    Zstd,
    /// Gzip, in a sibling ending in `.gz`.
    Gzip,
}

impl Coding {
    /// Number of codings.
    pub const COUNT: usize = 4;

    /// Codings of stored siblings, the densest first, which wins among equal weights.
    pub const SIBLINGS: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    /// Returns the index of the coding in an array of [`Self::COUNT`] entries.
    pub fn index(self) -> usize {
        match self {
            Coding::Identity => 0,
            Coding::Brotli => 1,
            Coding::Zstd => 2,
            Coding::Gzip => 3,
        }
    }

    /// Returns the name of the coding in `Content-Encoding`; empty for the file itself.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Identity => "",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// Returns the suffix of the sibling's name; empty for the file itself.
    pub fn suffix(self) -> &'static str {
        match self {
            Coding::Identity => "",
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }
}

/// Weights of the codings in a request, in thousandths; `None` for codings that it does not name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AcceptEncoding {
    weights: [Option<u16>; Coding::COUNT],
    /// Used only for responses that are compressed while they are sent.
    deflate: Option<u16>,
    any: Option<u16>,
}

impl AcceptEncoding {
    /// Parses all `Accept-Encoding` fields of a request, which form one list.
    pub fn of(fields: &Fields) -> Self {
        let mut accept = Self::default();
        fields.get_all("accept-encoding").for_each(|value| accept.read(value));
        accept
    }

    /// Chooses one of the stored codings; the file itself is always stored.
    ///
    /// The highest weight wins, and the densest coding among equals. The file itself, if the
    /// request does not name it, ranks below every coding that the request accepts. It is sent even
    /// if refused (`identity;q=0`) if no coding is acceptable: a client that cannot read it is no
    /// worse off than with 406.
    pub fn choose(&self, stored: impl Fn(Coding) -> bool) -> Coding {
        let mut best = (Coding::Identity, self.identity_weight());
        // From the least dense, so that a denser one replaces it at the same weight.
        for coding in Coding::SIBLINGS.into_iter().rev() {
            let weight = self.weights[coding.index()].or(self.any).unwrap_or(0);
            if weight > 0 && weight >= best.1 && stored(coding) {
                best = (coding, weight);
            }
        }
        best.0
    }

    /// Returns the weight of an encoding in thousandths; 0 if it is not accepted.
    pub fn weight(&self, encoding: Encoding) -> u16 {
        let weight = match encoding {
            Encoding::Brotli => self.weights[Coding::Brotli.index()],
            Encoding::Deflate => self.deflate,
            Encoding::Gzip => self.weights[Coding::Gzip.index()],
            Encoding::Zstandard => self.weights[Coding::Zstd.index()],
        };
        weight.or(self.any).unwrap_or(0)
    }

    /// Returns the weight of the unencoded content in thousandths: 1 unless the request names it.
    pub fn identity_weight(&self) -> u16 {
        self.weights[Coding::Identity.index()].or(self.any).unwrap_or(1)
    }

    /// Parses the value of one field. Malformed elements are ignored.
    fn read(&mut self, value: &[u8]) {
        for element in value.split(|byte| *byte == b',') {
            let mut parameters = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let name = parameters.next().unwrap_or_default();
            let weight = parameters.try_fold(1000, |weight, parameter| match parameter {
                [b'q' | b'Q', b'=', number @ ..] => parse_weight(number),
                _ => Some(weight),
            });
            let Some(weight) = weight else { continue };
            let slot = match name {
                b"*" => &mut self.any,
                _ if name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip") => {
                    &mut self.weights[Coding::Gzip.index()]
                }
                _ if name.eq_ignore_ascii_case(b"br") => &mut self.weights[Coding::Brotli.index()],
                _ if name.eq_ignore_ascii_case(b"zstd") => &mut self.weights[Coding::Zstd.index()],
                _ if name.eq_ignore_ascii_case(b"deflate") => &mut self.deflate,
                _ if name.eq_ignore_ascii_case(b"identity") => {
                    &mut self.weights[Coding::Identity.index()]
                }
                _ => continue,
            };
            *slot = Some(weight);
        }
    }
}

/// Parses the value of one `Accept-Encoding` field.
pub fn parse_accept_encoding(value: &[u8]) -> AcceptEncoding {
    let mut accept = AcceptEncoding::default();
    accept.read(value);
    accept
}

/// Parses a weight (RFC 9110, 12.4.2), `0` or `1` with at most three decimals; returns thousandths.
fn parse_weight(number: &[u8]) -> Option<u16> {
    let (whole, decimals) = match number {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut weight = u16::from(whole - b'0') * 1000;
    for (decimal, unit) in decimals.iter().zip([100, 10, 1]) {
        if !decimal.is_ascii_digit() {
            return None;
        }
        weight += u16::from(decimal - b'0') * unit;
    }
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Coding::*;
    use proptest::prelude::*;

    fn choice(value: &str, stored: &[Coding]) -> Coding {
        parse_accept_encoding(value.as_bytes()).choose(|coding| stored.contains(&coding))
    }

    #[test]
    fn the_best_stored_coding_is_chosen() {
        let all = [Brotli, Zstd, Gzip];
        assert_eq!(choice("gzip, deflate, br, zstd", &all), Brotli);
        assert_eq!(choice("gzip, deflate, br", &[Gzip]), Gzip);
        assert_eq!(choice("gzip, deflate, br", &[Zstd]), Identity);
        assert_eq!(choice("gzip;q=1.0, br;q=0.5", &all), Gzip);
        assert_eq!(choice("gzip; q=0.3 , zstd;Q=0.301", &all), Zstd);
        assert_eq!(choice("*", &all), Brotli);
        assert_eq!(choice("*;q=0.1, br;q=0", &all), Zstd);
        assert_eq!(choice("x-gzip", &all), Gzip);
        assert_eq!(choice("GZIP", &all), Gzip);
        assert_eq!(choice("gzip;q=0.001", &all), Gzip);
    }

    #[test]
    fn the_file_itself_is_sent_when_nothing_else_is_better() {
        let all = [Brotli, Zstd, Gzip];
        assert_eq!(choice("", &all), Identity);
        assert_eq!(choice("identity", &all), Identity);
        assert_eq!(choice("gzip;q=0", &all), Identity);
        assert_eq!(choice("identity;q=1, gzip;q=0.5", &all), Identity);
        assert_eq!(choice("identity;q=0.5, gzip;q=0.5", &all), Gzip);
        assert_eq!(choice("gzip;q=0.5, *;q=0.8", &[Gzip]), Identity);
        assert_eq!(choice("identity;q=0", &[]), Identity);
        assert_eq!(choice("identity;q=0, gzip;q=0.1", &all), Gzip);
        assert_eq!(choice("*;q=0", &all), Identity);
    }

    #[test]
    fn each_coding_has_the_name_and_the_suffix_of_its_files() {
        let told = [Identity, Brotli, Zstd, Gzip].map(|coding| (coding.name(), coding.suffix()));
        assert_eq!(told, [("", ""), ("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")]);
    }

    #[test]
    fn the_fields_of_a_request_give_each_encoding_its_weight() {
        let name = &b"accept-encoding"[..];
        let pairs = [(name, &b"gzip;q=0.123, br"[..]), (name, b"deflate;q=0.4, *;q=0.05")];
        let accept = AcceptEncoding::of(&Fields::from_pairs(pairs));
        let weights = [Encoding::Gzip, Encoding::Brotli, Encoding::Deflate, Encoding::Zstandard]
            .map(|encoding| accept.weight(encoding));
        assert_eq!(weights, [123, 1000, 400, 50]);
        assert_eq!(parse_accept_encoding(b"gzip").weight(Encoding::Brotli), 0);
        assert_eq!(parse_accept_encoding(b"gzip").identity_weight(), 1);
        assert_eq!(parse_accept_encoding(b"identity;q=0.7, unknown").identity_weight(), 700);
    }

    #[test]
    fn malformed_elements_are_passed_over() {
        assert_eq!(choice("gzip;q=2, br;q=x, zstd;q=0.5", &[Brotli, Zstd, Gzip]), Zstd);
        assert_eq!(choice("gzip;q=1.001", &[Gzip]), Identity);
        assert_eq!(choice("gzip;q=0.1234", &[Gzip]), Identity);
        assert_eq!(choice(";;;,,=,gzip", &[Gzip]), Gzip);
    }

    proptest! {
        #[test]
        fn only_a_stored_and_accepted_coding_is_chosen(
            value in "([a-z*]{0,4}|gzip|br|zstd|identity|\\*)(;q=[01](\\.[0-9]{0,3})?)?(, \
                      ?(gzip|br|zstd|identity)(;q=[01](\\.[0-9]{0,3})?)?){0,4}",
            stored in prop::array::uniform4(any::<bool>()),
        ) {
            let accept = parse_accept_encoding(value.as_bytes());
            let chosen = accept.choose(|coding| stored[coding.index()]);
            if chosen != Identity {
                prop_assert!(stored[chosen.index()]);
                prop_assert!(accept.weights[chosen.index()].or(accept.any) > Some(0));
            }
        }

        #[test]
        fn no_value_makes_the_parser_fail(value in prop::collection::vec(any::<u8>(), 0..60)) {
            parse_accept_encoding(&value).choose(|_| true);
        }
    }
}
