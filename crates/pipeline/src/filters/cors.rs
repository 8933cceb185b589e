//! `cors` of an action: cross-origin requests (the Fetch standard, 3.2).

use howdah_config::Cors;
use howdah_http::message::{Request, Response};

/// Adds the fields of CORS, unless the response already has them.
pub fn apply(cors: Option<&Cors>, request: &Request, response: &mut Response) {
    let Some(cors) = cors else { return };
    const ALLOWED: &str = "Access-Control-Allow-Origin";
    if response.fields.get(ALLOWED).is_some() {
        return;
    }
    let fields = &mut response.fields;
    match &cors.origins {
        None => fields.push(ALLOWED, "*"),
        Some(origins) => {
            // Caches must not give a response for one origin to another.
            fields.push("Vary", "Origin");
            let asked = request.fields.get("origin").unwrap_or_default();
            let found = origins.iter().find(|origin| asked.eq_ignore_ascii_case(origin.as_bytes()));
            match found {
                Some(_) => fields.push(ALLOWED, asked),
                None => return,
            }
        }
    }
    if cors.credentials {
        fields.push("Access-Control-Allow-Credentials", "true");
    }
    let mut list = |name: &str, values: &[String]| {
        if !values.is_empty() {
            fields.push(name, values.join(", "));
        }
    };
    if !request.is_preflight() {
        return list("Access-Control-Expose-Headers", &cors.expose_headers);
    }
    list("Access-Control-Allow-Methods", &cors.methods);
    list("Access-Control-Allow-Headers", &cors.headers);
    if let Some(age) = cors.max_age {
        fields.push("Access-Control-Max-Age", age.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_http::body::Body;
    use howdah_http::fixture::request;

    fn answer(origin: Option<&str>, preflight: bool) -> String {
        let cors = Cors {
            origins: Some(vec!["https://a.example".to_owned()]),
            methods: vec!["GET".to_owned(), "PUT".to_owned()],
            headers: vec!["X-A".to_owned()],
            expose_headers: vec!["X-B".to_owned()],
            credentials: true,
            max_age: Some(60),
        };
        let mut fields: Vec<_> = origin.map(|origin| ("Origin", origin)).into_iter().collect();
        let mut request = request("/", &fields);
        if preflight {
            fields.push(("Access-Control-Request-Method", "PUT"));
            request = howdah_http::fixture::request("/", &fields);
            request.method = bytes::Bytes::from_static(b"OPTIONS");
        }
        let mut response = Response::new(200, Body::Empty);
        apply(Some(&cors), &request, &mut response);
        String::from_utf8(response.fields.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn only_a_listed_origin_may_read() {
        let allowed = answer(Some("https://a.example"), false);
        assert_eq!(
            allowed,
            "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n\
             Access-Control-Allow-Credentials: true\r\nAccess-Control-Expose-Headers: X-B\r\n"
        );
        for other in [None, Some("https://a.example.evil"), Some("http://a.example"), Some("null")]
        {
            assert_eq!(answer(other, false), "Vary: Origin\r\n");
        }
    }

    #[test]
    fn a_preflight_is_told_methods_and_fields() {
        let allowed = answer(Some("https://a.example"), true);
        for line in [
            "Access-Control-Allow-Methods: GET, PUT\r\n",
            "Access-Control-Allow-Headers: X-A\r\n",
            "Access-Control-Max-Age: 60\r\n",
        ] {
            assert!(allowed.contains(line), "{allowed}");
        }
        assert_eq!(answer(Some("https://b.example"), true), "Vary: Origin\r\n");
    }

    #[test]
    fn a_script_is_not_contradicted() {
        let mut response =
            Response::new(200, Body::Empty).with("Access-Control-Allow-Origin", "https://x");
        apply(Some(&Cors::default()), &request("/", &[("Origin", "https://y")]), &mut response);
        assert_eq!(response.fields.iter().count(), 1);
        let mut response = Response::new(200, Body::Empty);
        apply(Some(&Cors::default()), &request("/", &[]), &mut response);
        assert_eq!(response.fields.get("access-control-allow-origin"), Some(&b"*"[..]));
    }
}
