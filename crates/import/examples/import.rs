//! Imports a configuration of nginx: `import nginx FILE [--root DIR] [--fpm POOL]… --output FILE
//! --report FILE`.

use std::path::PathBuf;

use howdah_import::{Options, Source, nginx};

fn main() {
    let mut args = std::env::args().skip(2);
    let mut options = Options::default();
    let (mut file, mut output, mut report) = (PathBuf::new(), None, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--root" => options.root = args.next().map(PathBuf::from),
            "--fpm" => options.pools.extend(args.next().map(PathBuf::from)),
            "--output" => output = args.next(),
            "--report" => report = args.next(),
            _ => file = PathBuf::from(arg),
        }
    }
    let mut source = Source::new(options.root.clone());
    match nginx::import(&file, &options, &mut source) {
        Ok(import) => {
            if let Some(output) = output {
                std::fs::write(output, format!("{:#}\n", import.document)).expect("written");
            }
            if let Some(report) = report {
                std::fs::write(report, format!("{:#}\n", import.report.to_json()))
                    .expect("written");
            }
            std::process::exit(import.exit_status().into());
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}
