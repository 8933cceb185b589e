//! Arbitrary bytes in directives, header fields and names: no panic, no endless loop.

use proptest::prelude::*;

use crate::config::DirConfig;
use crate::directive::{Arguments, Directive, Place};
use crate::modules::negotiation::{Candidate, Lookup};
use crate::modules::testing::{Stub, now, record};
use crate::modules::{
    access_compat, auth_basic, authn_file, authz, authz_groupfile, autoindex, env, expires, filter,
    headers, mime, negotiation, setenvif,
};
use crate::options::Options;
use crate::record::Record;
use crate::world::{Later, World};

const MODULES: &[&[Directive]] = &[
    access_compat::DIRECTIVES,
    auth_basic::DIRECTIVES,
    authn_file::DIRECTIVES,
    authz::DIRECTIVES,
    authz_groupfile::DIRECTIVES,
    autoindex::DIRECTIVES,
    env::DIRECTIVES,
    expires::DIRECTIVES,
    filter::DIRECTIVES,
    headers::DIRECTIVES,
    mime::DIRECTIVES,
    negotiation::DIRECTIVES,
    setenvif::DIRECTIVES,
];

/// Number of words that a directive gets from the parser.
fn word_count(arguments: Arguments, wanted: usize) -> usize {
    match arguments {
        Arguments::None => 0,
        Arguments::Raw | Arguments::One | Arguments::Each | Arguments::Flag => 1,
        Arguments::Two | Arguments::EachAfterFirst => 2,
        Arguments::Three => 3,
        Arguments::OneOrTwo => 1 + wanted % 2,
        Arguments::TwoOrThree => 2 + wanted % 2,
        Arguments::OneToThree => 1 + wanted % 3,
        Arguments::Words => 1 + wanted % 5,
    }
}

/// Words of the directives, and any bytes.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "set A b",
        "edit* A (.) $1$0",
        "always merge A %{x}e",
        "access plus 1 month",
        "M5",
        "*/*",
        "text/html;q=0.5;level=2",
        "NameWidth=9",
        "+FancyIndexing",
        "DescriptionWidth=12",
        "all granted",
        "not ip 10",
        "ip ::1/0",
        "expr true",
        ">",
        "from",
        "10.1.2.3/8",
        "Request_URI . a=$1",
        "(A,/b)",
        "DEFLATE",
        "=x",
        "a-b, *;q=0",
        "Basic Og==",
        "text/x; charset=\"",
        "?C=N;O=D;P=[a",
    ]);
    prop_oneof![
        known.prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..40)
    ]
}

struct Files(Stub);

impl Lookup for Files {
    fn lookup<'a>(&'a self, record: &'a Record, name: &'a [u8]) -> Later<'a, Option<Candidate>> {
        Box::pin(async move {
            let mut sub = record.clone();
            sub.filename = [b"/site/".as_slice(), name].concat();
            sub.file = self.0.stat(&sub.filename)?;
            let found = mime::type_checker(&mut sub, &mime::Types::default());
            Some(Candidate { record: sub, status: 200, exceptions: found.exceptions })
        })
    }
}

impl autoindex::Directory for Files {
    fn insert<'a>(&'a self, _: &'a Record, uri: &'a [u8]) -> Later<'a, autoindex::Insert> {
        Box::pin(async move { autoindex::Insert::Plain(uri.to_vec()) })
    }

    fn signature(&self, _: &Record) -> Vec<u8> {
        Vec::new()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_a_module_panic(
        directives in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::collection::vec(text(), 5)),
            0..12,
        ),
        fields in prop::collection::vec((0usize..8, text()), 0..6),
        names in prop::collection::vec(text(), 0..6),
        contents in text(),
        query in text(),
        path in text(),
    ) {
        let place = Place {
            file: "/site/.htaccess",
            line: 1,
            directory: b"/site/",
            section: None,
            methods: None,
            options: Options::ANY,
        };
        let mut config = DirConfig::default();
        for (module, index, words) in &directives {
            let module = module.get(MODULES);
            let directive = index.get(module);
            let count = word_count(directive.arguments, words[1].len());
            let words: Vec<&[u8]> = words.iter().take(count).map(Vec::as_slice).collect();
            let _ = (directive.apply)(&mut config, &place, &words);
        }
        let config = config.merged(&config);
        let mut files = Files(Stub::default());
        for name in &names {
            files.0.files.insert([b"/site/".as_slice(), name].concat(), contents.clone());
        }
        let mut record = record(config);
        record.uri = path.clone();
        record.args = Some(query);
        record.filename = [b"/site/".as_slice(), &path].concat();
        let known = [
            "Accept", "Accept-Language", "Accept-Charset", "Accept-Encoding", "Authorization", "Negotiate", "A",
            "User-Agent",
        ];
        for (name, value) in fields {
            record.headers_in.add(known[name], value.clone());
            record.headers_out.add(known[name], value);
        }
        let stub = Stub::default();
        let _ = setenvif::header_parser(&mut record, &files.0, &stub);
        let _ = now(authz::authorize(&mut record, &files.0, &stub));
        mime::type_checker(&mut record, &mime::Types::built_in());
        let _ = now(negotiation::type_checker(&mut record, &files.0, &files, true));
        let _ = now(negotiation::handle_map(&mut record, &files.0, &files));
        env::fixup(&mut record, &|_| None);
        negotiation::fixup(&mut record);
        let _ = auth_basic::fixup(&mut record, &files.0, &stub);
        headers::request(&mut record, &files.0, &stub);
        record.filename = b"/site/".to_vec();
        let _ = now(autoindex::handle(&mut record, &files.0, &files, true));
        expires::response(&mut record);
        filter::compression(&mut record, &files.0, &stub, &[b"deflate".to_vec()], None);
        headers::response(&mut record, &files.0, &stub);
    }
}
