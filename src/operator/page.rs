//! The page for operators. Its files are texts of the program: there is no step of building, and
//! nothing is loaded from elsewhere.
//!
//! **Invariant:** what the page shows is set as text, never as markup, since paths, request ids and
//! upstreams' messages are written by others. A test looks for every way to make markup of a text.

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// All files, with their types.
const FILES: [(&str, &str, &str); 15] = [
    ("index.html", HTML, include_str!("page/index.html")),
    ("style.css", CSS, include_str!("page/style.css")),
    ("icon.svg", SVG, include_str!("page/icon.svg")),
    ("api.js", JS, include_str!("page/api.js")),
    ("app.js", JS, include_str!("page/app.js")),
    ("ask.js", JS, include_str!("page/ask.js")),
    ("callers.js", JS, include_str!("page/callers.js")),
    (
        "configuration.js",
        JS,
        include_str!("page/configuration.js"),
    ),
    ("dom.js", JS, include_str!("page/dom.js")),
    ("models.js", JS, include_str!("page/models.js")),
    ("place.js", JS, include_str!("page/place.js")),
    ("requests.js", JS, include_str!("page/requests.js")),
    ("shapes.js", JS, include_str!("page/shapes.js")),
    ("verdict.js", JS, include_str!("page/verdict.js")),
    ("words.js", JS, include_str!("page/words.js")),
];

/// Returns the type and the text of a file by its path: `/`, or `/page/NAME`.
pub fn page_file(path: &str) -> Option<(&'static str, &'static str)> {
    let name = if path == "/" {
        "index.html"
    } else {
        path.strip_prefix("/page/")?
    };
    FILES
        .iter()
        .find(|(file, ..)| *file == name)
        .map(|(_, kind, text)| (*kind, *text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn all_files_of_the_folder_are_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/operator/page");
        let there = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap());
        assert_eq!(
            there.collect::<BTreeSet<_>>(),
            FILES.iter().map(|(file, ..)| (*file).to_owned()).collect()
        );
        assert_eq!(page_file("/"), page_file("/page/index.html"));
        assert_eq!(page_file("/page/../../Cargo.toml"), None);
        assert_eq!(page_file("/page/"), None);
    }

    #[test]
    fn the_page_is_small() {
        let size: usize = FILES.iter().map(|(.., text)| text.len()).sum();
        assert!(size <= 100 << 10, "{size} bytes");
    }

    #[test]
    fn the_page_loads_nothing_foreign_as_markup() {
        let makes_markup = [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
        ];
        let keeps = [
            "localStorage",
            "sessionStorage",
            "document.cookie",
            "indexedDB",
        ];
        let inline = [" style=", " onclick=", "javascript:", "<style"];
        for (file, _, text) in FILES {
            for word in makes_markup.iter().chain(&keeps).chain(&inline) {
                // `button.onclick = call` sets a function, not a text.
                assert!(
                    !text.contains(word) || (*word == " onclick=" && file != "index.html"),
                    "{file}: {word}"
                );
            }
            for (at, _) in text
                .match_indices("//")
                .filter(|(at, _)| text[..*at].ends_with(':'))
            {
                let rest = &text[at..];
                let known = ["//www.w3.org/2000/svg", "//127.0.0.1:8080"];
                assert!(
                    known.iter().any(|known| rest.starts_with(known)),
                    "{file}: {}",
                    &rest[..rest.len().min(40)]
                );
            }
        }
    }

    #[test]
    fn every_imported_module_exists_and_is_loaded_early() {
        let index = page_file("/").unwrap().1;
        for (file, _, text) in FILES.iter().filter(|(file, ..)| file.ends_with(".js")) {
            for import in text
                .split(" from './")
                .skip(1)
                .filter_map(|rest| rest.split('\'').next())
            {
                assert!(
                    FILES.iter().any(|(known, ..)| *known == import),
                    "{file} imports {import}"
                );
            }
            assert!(
                index.contains(&format!("\"/page/{file}\"")),
                "index.html does not name {file}"
            );
        }
    }
}
