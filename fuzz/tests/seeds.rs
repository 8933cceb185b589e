//! Every input in `seeds/` keeps the promises of its target, without a fuzzer.

use std::fs;
use std::path::Path;

use howdah_fuzz::TARGETS;

#[test]
fn the_seeds_of_every_target_pass() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (name, target) in TARGETS {
        let mut inputs = 0;
        for seed in fs::read_dir(seeds.join(name)).unwrap_or_else(|e| panic!("{name}: {e}")) {
            let path = seed.unwrap().path();
            println!("{}", path.display());
            let input = fs::read(&path).unwrap();
            target(&input);
            // Inputs that are cut off in the middle or have one byte changed often reach more code.
            for at in 0..input.len().min(1000) {
                target(&input[..at]);
                let mut changed = input.clone();
                changed[at] ^= 1 << (at % 8);
                target(&changed);
            }
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has no seeds");
    }
}

#[test]
fn every_target_has_its_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed: Vec<_> = TARGETS.iter().map(|(name, _)| format!("{name}.rs")).collect();
    let mut files: Vec<_> = fs::read_dir(root.join("targets"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, listed);
}
