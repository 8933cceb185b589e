use super::*;
use crate::groups::Group;

fn literal(text: &str) -> Part {
    Part::Literal(text.to_owned())
}

fn parts(text: &str) -> Vec<Part> {
    Template::parse(text).expect(text).parts
}

#[test]
fn text_and_variables_are_told_apart() {
    assert_eq!(parts("/www"), [literal("/www")]);
    assert_eq!(parts(""), []);
    assert_eq!(
        parts("/www/$host$uri.x"),
        [
            literal("/www/"),
            Part::Variable(Variable::Host),
            Part::Variable(Variable::Uri),
            literal(".x")
        ]
    );
    assert_eq!(
        parts("${uri}x${method}"),
        [Part::Variable(Variable::Uri), literal("x"), Part::Variable(Variable::Method)]
    );
}

#[test]
fn a_dollar_sign_is_written_as_a_variable() {
    assert_eq!(parts("a${dollar}uri"), [literal("a$uri")]);
    let escaped = Template::escape("/a$b/${uri}");
    assert_eq!(Template::parse(&escaped).expect("valid").constant(), Some("/a$b/${uri}"));
}

#[test]
fn fields_arguments_and_cookies_are_variables() {
    for (text, variable) in [
        ("$header_User_Agent", Variable::Header("user-agent".to_owned())),
        ("$response_header_x", Variable::ResponseHeader("x".to_owned())),
        ("$arg_Foo_b", Variable::Argument("Foo_b".to_owned())),
        ("$cookie_Sid", Variable::Cookie("Sid".to_owned())),
    ] {
        assert_eq!(parts(text), [Part::Variable(variable)]);
    }
}

/// Scenario: nginx's usual `$arg_md5` of a signed link.
#[test]
fn names_in_braces_may_have_digits() {
    let argument = |name: &str| Part::Variable(Variable::Argument(name.to_owned()));
    assert_eq!(parts("${arg_md5}"), [argument("md5")]);
    assert_eq!(parts("$arg_md5"), [argument("md"), literal("5")]);
    let field = Part::Variable(Variable::Header("x-b3-id2".to_owned()));
    assert_eq!(parts("${header_x_b3_id2}3"), [field, literal("3")]);
    for text in ["${1a}", "${12}", "${arg_md5", "${arg_md5-}"] {
        assert!(matches!(Template::parse(text), Err(TemplateError::NoName { .. })), "{text}");
    }
}

#[test]
fn a_dollar_sign_without_a_name_is_refused_where_it_stands() {
    for (text, offset) in
        [("$", 0), ("a$$uri", 1), ("$uri$.", 4), ("${", 0), ("${uri", 0), ("x${}", 1), ("é$-", 2)]
    {
        assert_eq!(Template::parse(text), Err(TemplateError::NoName { offset }), "{text}");
    }
}

#[test]
fn unknown_variables_are_refused_by_name() {
    for name in
        ["hos", "hostblah", "r", "arg_", "header_", "cookie_", "response_header_", "Uri", "_"]
    {
        let expected = TemplateError::Unknown { name: name.to_owned() };
        assert_eq!(Template::parse(&format!("/${name}/")), Err(expected));
    }
}

#[test]
fn every_name_on_the_list_is_known() {
    for name in names() {
        assert!(Template::parse(&format!("${name}")).is_ok(), "{name}");
    }
}

#[test]
fn javascript_is_refused() {
    assert_eq!(Template::parse("`/www/${uri}`"), Err(TemplateError::JavaScript));
    assert!(Template::parse("`").is_ok());
}

#[test]
fn expanding_puts_values_in_place() {
    let mut out = b"> ".to_vec();
    Template::parse("/$host/$uri$dollar").expect("valid").expand(&mut out, |variable, out| {
        out.extend_from_slice(match variable {
            Variable::Host => b"\xffh$uri",
            _ => b"u",
        });
    });
    assert_eq!(out, b"> /\xffh$uri/u$");
}

proptest::proptest! {
    #[test]
    fn an_escaped_path_is_taken_literally(path in "/.*") {
        let template = Template::parse(&Template::escape(&path)).expect("valid");
        proptest::prop_assert_eq!(template.constant(), Some(path.as_str()));
    }

    #[test]
    fn no_text_makes_it_panic(text in ".*", braces in "[${}a_`]*") {
        let _ = Template::parse(&text);
        let _ = Template::parse(&braces);
    }
}

#[test]
fn groups_are_named_by_one_digit_or_by_their_name() {
    let mut patterns = crate::Patterns::default();
    let text = "~^/(?P<section>[a-z]+)/(.*)$";
    patterns.push(crate::Pattern::parse(text, crate::Subject::Uri).expect(text));
    let groups = Groups::new(Some(&patterns), None);
    let read = |text: &str| Template::parse_with(text, &groups).map(|template| template.parts);
    let number = |n| Part::Variable(Variable::Capture(Group::Number(n)));
    assert_eq!(read("$10${2}x"), Ok(vec![number(1), literal("0"), number(2), literal("x")]));
    let name = Part::Variable(Variable::Capture(Group::Name("section".to_owned())));
    assert_eq!(read("${section}"), Ok(vec![name]));
    for (text, problem) in [
        ("$0", "has \"$0\", and the groups are numbered from 1 to 2"),
        ("$3", "has \"$3\", and the groups are numbered from 1 to 2"),
        ("$sections", "Unknown variable \"$sections\""),
    ] {
        assert_eq!(read(text).expect_err(text).to_string(), problem);
    }
    let problem = Template::parse("$1").expect_err("no groups").to_string();
    assert_eq!(problem, "has \"$1\", and no regular expression here has a group");
}
