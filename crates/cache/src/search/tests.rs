use proptest::prelude::*;

use super::*;

fn variance(field: &str) -> Option<Variance> {
    let mut fields = FieldBlock::default();
    fields.push("No-Vary-Search", field);
    Variance::of(&fields)
}

fn canonical(field: &str, query: &str) -> Option<String> {
    let query = variance(field).unwrap().canonical(query.as_bytes())?;
    Some(String::from_utf8_lossy(&query).into_owned())
}

#[test]
fn parameters_without_effect_are_left_out() {
    for (field, query, expected) in [
        ("params=(\"utm_source\" \"x\")", "a=1&utm_source=b&x&b=2", "a=1&b=2"),
        ("params=(\"%C3%A9+b\")", "%c3%a9%20b=1&c=2", "c=2"),
        ("params=(\"a\")", "a[]=1&A=2&&c", "a[]=1&A=2&c"),
        ("params", "a=1&b=2", ""),
        ("params, except=(\"id\")", "a=1&id=2&i%64=3", "id=2&i%64=3"),
        ("except=(\"id\")", "a=1&id=2", "id=2"),
        ("key-order", "b=1&a=2&b=0", "a=2&b=1&b=0"),
        ("key-order, params=(\"x\")", "b=1&x&a=2", "a=2&b=1"),
        ("key-order=?1, params=?0", "b&a", "a&b"),
        ("params=(\"a\"), unknown=1", "a=1&b", "b"),
    ] {
        assert_eq!(canonical(field, query).as_deref(), Some(expected), "{field} {query}");
    }
}

#[test]
fn a_field_without_a_meaning_has_no_effect() {
    for field in [
        "",
        "unknown",
        "key-order=?0",
        "params=?0",
        "params=()",
        "params=(\"a\"), except=(\"b\")",
        "params=?0, except=(\"b\")",
        "params=(a)",
        "params=\"a\"",
        "params=1",
        "except=1",
        "except",
        "except=(a)",
        "key-order=1",
        "params=(\"a\"",
        "A",
    ] {
        assert_eq!(variance(field), None, "{field}");
    }
}

/// PHP reads each of these as another name than it has here, so one client could choose the page of
/// another.
#[test]
fn ambiguous_names_count_as_they_are() {
    for query in
        ["%20id=5", "id[]=5", "i.d=5", "id%00=5", "ID=5", "+id=5", "a&id[x]=5", "=5", "id%5b=5"]
    {
        assert_eq!(canonical("params, except=(\"id\" \"i_d\")", query), None, "{query}");
    }
    assert_eq!(canonical("key-order", "a.b=1&a_b=2"), None);
    assert_eq!(canonical("params=(\"x\")", "a.b=1&x").as_deref(), Some("a.b=1"));
    let many = "a&".repeat(MAX_PARAMETERS + 1);
    assert_eq!(canonical("params", &many), None);
}

proptest! {
    #[test]
    fn ignored_parameters_have_no_effect(
        kept in prop::collection::vec(("[a-c]{1,2}", "[a-z0-9]{0,3}"), 0..6),
        ignored in prop::collection::vec(("[x-z]", "[a-z]{0,3}"), 0..6),
        seed in any::<prop::sample::Selector>(),
    ) {
        let show = |pairs: &[(String, String)]| -> Vec<String> {
            pairs.iter().map(|(name, value)| format!("{name}={value}")).collect()
        };
        let (kept, ignored) = (show(&kept), show(&ignored));
        let mut mixed = kept.clone();
        for piece in ignored {
            let at = seed.select(0..=mixed.len());
            mixed.insert(at, piece);
        }
        let field = "params=(\"x\" \"y\" \"z\")";
        prop_assert_eq!(canonical(field, &mixed.join("&")), Some(kept.join("&")));
    }

    #[test]
    fn the_canonical_query_is_its_own(query in "[a-c=&%+.]{0,30}") {
        for field in ["key-order", "params=(\"a\")", "except=(\"b\"), key-order"] {
            if let Some(once) = canonical(field, &query) {
                prop_assert_eq!(canonical(field, &once), Some(once.clone()));
            }
        }
    }
}
