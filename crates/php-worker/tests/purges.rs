//! `howdah_cache_purge()`.

mod harness;

use harness::Application;

#[test]
fn scripts_purge_by_tags_and_all() {
    let mut application = Application::start(1);
    let mut purges = |code: &str| application.run(code).purges;
    assert_eq!(purges("howdah_cache_purge(['post-1', 'list']);"), ["post-1,list,"]);
    assert_eq!(purges("howdah_cache_purge(tags: ['a'], soft: true);"), ["soft a,"]);
    assert_eq!(purges("howdah_cache_purge(all: true);"), ["all "]);
    assert!(purges("howdah_cache_purge([]);").is_empty());
    let late = "register_shutdown_function(fn() => howdah_cache_purge(['late']));
        echo 'x'; fastcgi_finish_request(); howdah_cache_purge(['first']);";
    assert_eq!(purges(late), ["first,", "late,"]);
}

#[test]
fn many_tags_come_in_parts_and_bad_ones_are_refused() {
    let mut application = Application::start(1);
    let many =
        application.run("howdah_cache_purge(array_map(fn($n) => \"tag-$n\", range(1, 20000)));");
    assert!(many.purges.len() > 1);
    let tags: Vec<_> = many.purges.iter().flat_map(|part| part.split_terminator(',')).collect();
    assert_eq!((tags.len(), tags[0], tags[19999]), (20000, "tag-1", "tag-20000"));
    for tag in ["''", "'a b'", "\"a\\nb\"", "'a,b'", "1", "[]", "str_repeat('a', 1025)"] {
        let code = format!(
            "try {{ howdah_cache_purge(['ok', {tag}]); }} catch (ValueError $e) {{ echo 'no'; }}"
        );
        let answer = application.run(&code);
        assert_eq!((answer.text().as_str(), answer.purges.len()), ("no", 0), "{tag}");
    }
}
