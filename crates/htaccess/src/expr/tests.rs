use proptest::prelude::*;

use super::fake::{Fake, record};
use super::*;

fn fake() -> Fake {
    Fake::new(&["/www/", "/www/x.txt", "/www/denied"])
}

fn text(source: &str) -> Result<String, String> {
    let text = Text::parse(source.as_bytes())?;
    let (record, fake) = (record(), fake());
    let value = text.evaluate(&record, &fake, &mut Context::default());
    value.map(|text| String::from_utf8_lossy(&text).into_owned()).map_err(|error| error.to_string())
}

fn holds(source: &str) -> Result<bool, String> {
    let condition = Expr::parse(source.as_bytes())?;
    condition.holds(&mut record(), &fake()).map_err(|error| error.to_string())
}

/// The results are Apache 2.4.71's.
#[test]
fn texts_have_apaches_values() {
    let cases = [
        ("", ""),
        ("plain", "plain"),
        ("%{TIME}", "20261124044731"),
        ("%{TIME_YEAR}-%{TIME_MON}-%{TIME_DAY} %{TIME_WDAY}", "2026-11-24 2"),
        ("%{API_VERSION}", "20120211"),
        ("%{REQUEST_URI}-%{tolower:%{REQUEST_URI}ABC}", "/x.txt-/x.txtabc"),
        ("%{request_uri}", "/x.txt"),
        ("a}b$1%", "a}b%"),
        ("%{escape:/a b?c%41}", "/a%20b%3fc%2541"),
        ("%{unescape:%2541%2f}", "%41%2f"),
        ("%{unescape:%zz}|%{unescape:%00}|%{unbase64:!!}", "||"),
        ("%{base64:ab}%{base64:abc}%{base64:a}", "YWI=YWJjYQ=="),
        ("%{unbase64:YWI=}%{unbase64:YWJj}", "ababc"),
        ("%{md5:a}", "0cc175b9c0f1b6a831c399e269772661"),
        ("%{sha1:a}", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
        ("%{ldap:a*(b)\\x}", "a\\2a\\28b\\29x"),
        ("%{req:Host}%{http:Host}%{req_novary:host}", "site.testsite.testsite.test"),
        (
            "%{REQUEST_SCHEME} %{HTTPS} %{IPV6} %{HTTP2} %{SERVER_ADMIN}|",
            "http off off off [no address given]|",
        ),
        (
            "%{DOCUMENT_URI} %{REQUEST_STATUS} %{IS_SUBREQ} %{REMOTE_HOST}",
            "/x.txt 200 false 127.0.0.1",
        ),
        ("\\x41\\101\\n\\\\", "x41A\n\\"),
        (
            "%{env:FROM_ENV}%{env:from_note}%{reqenv:FROM_ENV}%{note:from_note}",
            "environmentnoteenvironmentnote",
        ),
        ("%{toupper:%{env:FROM_ENV}}", "ENVIRONMENT"),
        (
            "%{CONTEXT_PREFIX}|%{CONTEXT_DOCUMENT_ROOT}|%{SERVER_PORT}|%{REMOTE_PORT}",
            "|/www|80|4711",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(text(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn broken_texts_have_apaches_errors() {
    let cases = [
        ("%{nonsense}", "Variable 'nonsense' does not exist"),
        ("%{nope:a}", "Function 'nope' does not exist"),
        ("a%{filesize:/etc/passwd}", "filesize not available in restricted context"),
        ("%{file:/etc/passwd}", "file not available in restricted context"),
        ("%{replace:a}", "Function 'replace' does not exist"),
        ("%{:foo}", "syntax error, unexpected ':'"),
        ("%{tolower:}", "syntax error, unexpected T_VAR_END"),
        ("%{REQUEST_URI", "syntax error, unexpected T_ERROR: Unterminated string or variable"),
        ("\\999", "Bad escape sequence"),
        ("\\777", "Escape sequence out of bound"),
        ("%{SERVER_ADDR}", "Variable 'SERVER_ADDR' does not exist"),
        // These expressions end Apache's process.
        ("a\\", "Parse error near '\\'"),
        ("%{tolower:\"A}", "Parse error near '\"'"),
    ];
    for (source, expected) in cases {
        assert_eq!(text(source), Err(expected.to_owned()), "{source}");
    }
}

/// The results are Apache 2.4.71's.
#[test]
fn conditions_have_apaches_values() {
    let long_or = format!("'b' == 'a'{}", " || 'b' == 'a'".repeat(25));
    let long_and = format!("true{}", " && true".repeat(25));
    let negations = format!("{}true", "!".repeat(25));
    let parentheses = format!("{}true{}", "(".repeat(30), ")".repeat(30));
    let concatenation = format!("'a'{} != 'b'", ".'a'".repeat(40));
    let cases = [
        ("true", true),
        ("-f '/www/x.txt'", true),
        ("-d '/www'", true),
        ("-e '/www/none'", false),
        ("-e 'x.txt'", false),
        ("-s '/www/x.txt'", true),
        ("-L '/www/x.txt'", false),
        ("-x '/www/x.txt'", false),
        ("%{REQUEST_URI} =~ m#^/(x)# && $1 == 'x'", true),
        ("%{REQUEST_URI} =~ /X/i", true),
        ("'a' -in {'b','a'}", true),
        ("'a' in {'b'}", false),
        ("1 -eq 1", true),
        ("'10' -gt '9'", true),
        ("10 > 9", false),
        ("-R '127.0.0.0/8'", true),
        ("-R '128.'", false),
        ("'127.0.0.1' -ipmatch '127.0.0.0/8'", true),
        ("'10.1.2.3' -ipmatch '10.1'", true),
        ("'10.2.2.3' -ipmatch '10.1.0.0/255.255.0.0'", false),
        ("'2001:db8::1' -ipmatch '2001:db8::/32'", true),
        ("'nonsense' -ipmatch '10.1'", false),
        ("'a/b' -fnmatch 'a*'", false),
        ("'a/b' -fnmatch 'a/[a-c]'", true),
        ("'a/b' -strmatch 'a*'", true),
        ("'A/b' -strcmatch 'a*'", true),
        ("'A/b' -strmatch 'a*'", false),
        ("'abcbd' -strmatch '*b?'", true),
        ("-T 'off'", false),
        ("-T 'on' && !-T '0'", true),
        ("-z ''", true),
        ("-n 'x'", true),
        ("-U '/x.txt'", true),
        ("-U '/denied'", false),
        ("-F '/www/x.txt'", true),
        ("-F '/www/none'", false),
        ("-A '/x.txt'", true),
        ("'a'.'b' == 'ab'", true),
        ("not false", true),
        ("!true || true", true),
        ("false and true or true", true),
        ("req('Cookie') == 'a=b'", true),
        ("%{HTTP_COOKIE} == 'a=b'", true),
        ("(true)", true),
        (&long_or, false),
        (&long_and, true),
        (&negations, false),
        (&parentheses, true),
        (&concatenation, true),
        ("%{tolower:%{tolower:%{tolower:A}}} == 'a'", true),
        ("tolower('A') == 'a'", true),
        ("1 == 2", false),
        ("-1 -lt 0", true),
        ("'' =~ /^$/", true),
        ("'abc' =~ /(b)/ && '$1' == 'b'", true),
        // A pattern with groups that does not match drops the captures, one without groups keeps
        // them.
        ("'abc' =~ /(b)/ && 'x' !~ /(y)/ && $1 == 'b'", false),
        ("'abc' =~ /(b)/ && 'x' =~ /x/ && $0 == 'b'", true),
    ];
    for (source, expected) in cases {
        assert_eq!(holds(source), Ok(expected), "{source}");
    }
}

#[test]
fn broken_conditions_have_apaches_errors() {
    let cases = [
        ("file('/etc/hostname') == 'x'", "file not available in restricted context"),
        ("true &&", "syntax error, unexpected $end"),
        ("a == b", "syntax error, unexpected T_OP_STR_EQ"),
        ("'x", "Unterminated string or variable"),
        ("-q 'x'", "Unary operator '-q' does not exist"),
        ("'a' -nope 'b'", "Binary operator '-nope' does not exist"),
        ("%{REQUEST_URI} =~ /(/", "Failed to compile regular expression"),
        ("%{foo}", "syntax error, unexpected $end: Variable 'foo' does not exist"),
        ("-R %{REMOTE_ADDR}", "-R requires subnet/netmask as constant argument"),
        ("-R 'nonsense'", "parsing of subnet/netmask failed"),
        ("-R '10.1/16'", "parsing of subnet/netmask failed"),
        ("-R '0.0.0.0/0'", "parsing of subnet/netmask failed"),
        ("('a') == 'a'", "syntax error, unexpected ')'"),
        ("m#a# == 'a'", "syntax error, unexpected T_REGEX"),
        ("'a' =~ m_a_", "syntax error, unexpected T_ID"),
        ("true false", "syntax error, unexpected T_FALSE"),
        (")", "syntax error, unexpected ')'"),
        ("'a' in PeerExtList('x')", "List-returning function 'PeerExtList' does not exist"),
        ("", "syntax error, unexpected $end"),
    ];
    for (source, expected) in cases {
        assert_eq!(holds(source), Err(expected.to_owned()), "{source}");
    }
    let deep = format!("{}true{}", "(".repeat(5000), ")".repeat(5000));
    assert!(holds(&deep).is_err());
}

#[test]
fn conditions_on_the_request_add_vary() {
    let mut record = record();
    record.headers_out.add("Vary", "Accept");
    let condition =
        Expr::parse(b"req('Cookie') == 'a=b' && %{HTTP_HOST} != '' && %{HTTP_USER_AGENT} != ''");
    condition.unwrap().holds(&mut record, &fake()).unwrap();
    assert_eq!(record.headers_out.get(b"Vary"), Some(b"Accept, Cookie, User-Agent".as_slice()));
}

#[test]
fn patterns_that_explode_are_overruns() {
    let mut record = record();
    record.uri = [b"a".repeat(4000), b"!".to_vec()].concat();
    let condition = Expr::parse(b"%{REQUEST_URI} =~ /(a+)+$/").unwrap();
    assert_eq!(condition.holds(&mut record, &fake()), Err(Failure::Overrun));
}

#[test]
fn long_texts_are_failures() {
    let mut record = record();
    record.uri = b" ".repeat(200_000);
    let source = format!("%{{escape:{}}}", "%{REQUEST_URI}".repeat(6));
    let text = Text::parse(source.as_bytes()).unwrap();
    assert!(text.evaluate(&record, &fake(), &mut Context::default()).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_survived(source in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = Expr::parse(&source).map(|condition| condition.holds(&mut record(), &fake()));
        let _ = text(&String::from_utf8_lossy(&source));
    }

    #[test]
    fn any_tokens_are_survived(tokens in proptest::collection::vec(prop_oneof![
        Just("'a'"), Just("%{REQUEST_URI}"), Just("=="), Just("=~"), Just("/(a)/"), Just("m#x#i"), Just("("),
        Just(")"), Just("{"), Just("}"), Just(","), Just("-in"), Just("-f"), Just("-R"), Just("'10.1'"), Just("&&"),
        Just("||"), Just("!"), Just("."), Just("$1"), Just("1"), Just("tolower"), Just("-strmatch"), Just("'*'"),
        Just("true"), Just("\""), Just("%{tolower:"), Just("\\")], 0..24)) {
        let source = tokens.join(" ");
        let _ = holds(&source);
        let _ = text(&source);
    }
}
