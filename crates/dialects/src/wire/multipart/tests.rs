use super::*;
use proptest::prelude::*;

/// The two fields of the tests that stand once, whatever their case and brackets, and one of each
/// other reading.
fn reading(name: &str) -> FieldReading {
    match name
        .split('[')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
        .as_str()
    {
        "model" => FieldReading::Once("model"),
        "n" => FieldReading::Once("n"),
        "fallbacks" => FieldReading::Whole,
        "extra" => FieldReading::Json,
        "image" => FieldReading::Beginning,
        _ => FieldReading::Nothing,
    }
}

fn part(name: &str, more: &str, content: &[u8]) -> Vec<u8> {
    let head =
        format!("--B0undary\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n");
    [head.as_bytes(), content, b"\r\n"].concat()
}

fn form(parts: &[Vec<u8>]) -> Vec<u8> {
    [parts.concat().as_slice(), b"--B0undary--\r\n"].concat()
}

fn read_in(form: &[u8], pieces: impl Iterator<Item = usize>) -> Result<Vec<FormField>, FormFault> {
    let (mut scanner, mut rest) = (FormScanner::new("B0undary", reading), form);
    for length in pieces {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        scanner.feed(piece)?;
        assert!(
            scanner.rest.len() <= HEAD + form.len().min(piece.len()) + 16,
            "{}",
            scanner.rest.len()
        );
        rest = after;
    }
    scanner.feed(rest)?;
    scanner.finish()
}

fn read(form: &[u8]) -> Result<Vec<FormField>, FormFault> {
    read_in(form, std::iter::empty())
}

fn model(form: &[u8]) -> Result<String, String> {
    let fields = read(form).map_err(|fault| {
        format!(
            "{} {}",
            fault.field.as_deref().unwrap_or("the form"),
            fault.why
        )
    })?;
    let field = fields
        .into_iter()
        .find(|field| field.name == "model")
        .ok_or("none")?;
    assert_eq!(&form[field.span.clone()], field.value, "the place is right");
    Ok(String::from_utf8(field.value).expect("text"))
}

#[test]
fn the_model_is_found_wherever_it_stands() {
    let (named, file) = (
        part("model", "", b"whisper-1"),
        part("file", "; filename=\"a.wav\"", b"RIFF\r\n\r\n--B0un\0"),
    );
    let other = part("prompt", "", b"name=\"model\"\r\n\r\nx");
    for parts in [
        [named.clone(), file.clone(), other.clone()],
        [file.clone(), named.clone(), other.clone()],
        [file.clone(), other.clone(), named.clone()],
    ] {
        assert_eq!(model(&form(&parts)).as_deref(), Ok("whisper-1"));
    }
    assert_eq!(model(&form(&[file, other])), Err("none".to_owned()));
    assert_eq!(model(&form(&[part("model", "", b"")])).as_deref(), Ok(""));
    assert_eq!(
        model(&form(&[])),
        Err("none".to_owned()),
        "a form without parts"
    );
}

#[test]
fn fields_are_given_once_short_and_as_text() {
    let named = part("model", "", b"m");
    let check = |parts: &[Vec<u8>], why: &str| assert_eq!(model(&form(parts)), Err(why.to_owned()));
    check(
        &[named.clone(), named.clone()],
        "model is given more than once",
    );
    check(
        &[named.clone(), part("model[]", "", b"other")],
        "model is given more than once",
    );
    check(
        &[part("model", "; filename=\"m\"", b"m")],
        "model must be a text and no file",
    );
    check(
        &[part("model", "; FileName*=utf-8''m", b"m")],
        "model must be a text and no file",
    );
    check(
        &[part("model", "", &[b'm'; VALUE + 1])],
        "model is too long",
    );
    check(
        &[named.clone(), part("Model", "", b"other")],
        "model is given more than once",
    );
    check(
        &[named.clone(), part(" model", "", b"other")],
        "model is given more than once",
    );
    assert_eq!(
        model(&form(&[named, part("models", "", b"x")])).as_deref(),
        Ok("m"),
        "another field"
    );
    let both = read(&form(&[part("n", "", b"3"), part("model", "", b"m")])).expect("a form");
    assert_eq!(
        both.iter().map(|field| &*field.name).collect::<Vec<_>>(),
        ["n", "model"]
    );
}

#[test]
fn what_is_read_of_a_field_is_bounded() {
    let fields = |parts: &[Vec<u8>]| {
        read(&form(parts)).map(|fields| {
            fields
                .into_iter()
                .map(|field| (field.name.into_owned(), field.value.len(), field.is_whole))
                .collect::<Vec<_>>()
        })
    };
    let found =
        |name: &str, length: usize, is_whole: bool| Ok(vec![(name.to_owned(), length, is_whole)]);
    let json = |length: usize| [&b"\r\n {"[..], &vec![b'x'; length - 4]].concat();
    for name in ["extra", "image[]", "fallbacks"] {
        assert_eq!(
            fields(&[part(name, "", &json(VALUES))]),
            found(name, VALUES, true)
        );
        let too_much = Err(FormFault {
            field: Some(name.into()),
            why: TOO_MUCH,
        });
        assert_eq!(
            fields(&[part(name, "", &json(VALUES + 1))]).map(drop),
            too_much.clone().map(drop)
        );
        let two = [
            part("extra", "", &json(VALUES - 9)),
            part(name, "", &json(10)),
        ];
        assert_eq!(fields(&two), too_much, "all together");
    }
    assert_eq!(
        fields(&[part("extra", "", &[b'x'; 9_000])]),
        Ok(vec![]),
        "no JSON"
    );
    assert_eq!(
        fields(&[part("extra", "", "日本語 {".repeat(900).as_bytes())]),
        Ok(vec![]),
        "no JSON"
    );
    assert_eq!(fields(&[part("extra", "", b" \n")]), Ok(vec![]), "blank");
    assert_eq!(
        fields(&[part("image", "", &[b'x'; VALUE])]),
        found("image", VALUE, true)
    );
    assert_eq!(
        fields(&[part("image", "", &[b'x'; 9_000])]),
        found("image", VALUE, false)
    );
    for blanks in [" ".repeat(VALUE), "\u{a0}".repeat(VALUE / 2)] {
        assert!(
            fields(&[part("extra", "", format!("{blanks}{{").as_bytes())]).is_err(),
            "too many blanks"
        );
        assert_eq!(
            fields(&[part("extra", "", format!("{}{{", &blanks[2..]).as_bytes())]),
            found("extra", VALUE - 1, true)
        );
    }
    for file in ["; filename=\"a.json\"", "; filename*=utf-8''a.json"] {
        assert_eq!(
            fields(&[part("extra", file, b"{}"), part("image", file, b"{}")]),
            Ok(vec![]),
            "files"
        );
        assert!(
            fields(&[part("fallbacks", file, b"[]")]).is_err(),
            "it must be no file"
        );
    }
    for no_file in ["; filename=\"\"", "; filenames=\"a\""] {
        assert_eq!(
            fields(&[part("extra", no_file, b"{}")]),
            found("extra", 2, true),
            "some servers read a text"
        );
    }
}

#[test]
fn heads_are_read_as_clients_write_them() {
    for head in [
        "content-disposition: form-data; name=\"model\"",
        "Content-Disposition: form-data; name=model",
        "Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=\"model\"",
        "CONTENT-DISPOSITION:form-data;name=\"model\"\r\nContent-Length: 1",
        "Content-Disposition: Form-Data; NAME=\"model\";",
        "Content-Disposition: form-data; name=\"model\"\r\nContent-Transfer-Encoding: 8bit",
        "Content-Disposition: form-data; name=\"file\"; filename=\"talk; part 2.wav\"\r\n\r\nx\r\n--B0undary\r\n\
         Content-Disposition: form-data; name=\"model\"",
    ] {
        let form = format!("--B0undary\r\n{head}\r\n\r\nm\r\n--B0undary--");
        assert_eq!(model(form.as_bytes()).as_deref(), Ok("m"), "{head}");
    }
}

#[test]
fn what_servers_could_read_in_two_ways_is_refused() {
    let whole = String::from_utf8(form(&[
        part("model", "", b"m"),
        part("file", "; filename=\"f\"", b"x"),
    ]))
    .expect("text");
    assert!(model(whole.as_bytes()).is_ok());
    let head = "Content-Disposition: form-data; name=\"file\"; filename=\"f\"";
    for (odd, why) in [
        (format!("\r\n{whole}"), "a line before"),
        (format!("preamble\r\n{whole}"), "a preamble"),
        (format!("{whole}x"), "an epilogue"),
        (whole.replace("--B0undary--\r\n", ""), "no end"),
        (whole.replace("--B0undary--\r\n", "--B0undary-"), "half an end"),
        (whole.replace("x\r\n--B0", "x\n--B0"), "a boundary after a bare line feed"),
        (whole.replace("x\r\n--B0", "x--B0"), "a boundary in a line"),
        (whole.replace("\r\nx\r\n", "\r\nx\r\n--B0undaryer\r\n"), "a longer boundary"),
        (whole.replace("\r\nx\r\n", "\r\nx\r\n--B0undary \r\n"), "blanks after a boundary"),
        (whole.replace(head, &head.replace("file\"", "mod%65l\"")), "a name in percent-encoding"),
        (whole.replace(head, &head.replace("file\"", "m\\odel\"")), "a name with a backslash"),
        (whole.replace(head, &head.replace("\"f\"", "\"f\\\"; name=\\\"model\"")), "an escaped quote"),
        (whole.replace(head, &head.replace("\"f\"", "\"f; name=model\"")), "a parameter in quotes"),
        (whole.replace(head, &format!("{head}; name=\"model\"")), "two names"),
        (whole.replace(head, &format!("{head}; name*=utf-8''model")), "an extended name"),
        (whole.replace(head, &format!("{head}; name*0=mo; name*1=del")), "a name in pieces"),
        (whole.replace(head, &head.replace("name=", "names=")), "a name that is none"),
        (whole.replace(head, &format!("{head}\r\nContent-Transfer-Encoding: base64")), "an encoded part"),
        (whole.replace(head, &format!("{head}\r\nContent-Type: Multipart/mixed; boundary=c")), "a form in a form"),
        (whole.replace(head, &format!("X: --B0undary\r\n{head}")), "a boundary in a head"),
        (whole.replace(head, "Content-Disposition: form-data; name=\"_charset_\""), "a field that says the charset"),
        (
            whole.replace(
                head,
                "Content-Type: text/plain; Charset = \"UTF-16\"\r\nContent-Disposition: form-data; name=x",
            ),
            "a text of another charset",
        ),
        (whole.replace(head, &format!("{head}\r\n{head}")), "two dispositions"),
        (whole.replace(head, &format!("{head}\r\n ; name=\"model\"")), "a folded line"),
        (whole.replace(head, &format!("{head}\nContent-Disposition: form-data; name=\"model\"")), "a bare line feed"),
        (whole.replace(head, &format!("X\r: y\r\n{head}")), "a bare carriage return"),
        (whole.replace(head, "Content-Disposition : form-data; name=\"model\""), "a blank before the colon"),
        (whole.replace(head, "Content-Disposition: attachment; name=\"file\""), "no form-data"),
        (whole.replace(head, "Content-Disposition: form-data"), "no name"),
        (whole.replace(head, "Content-Disposition: form-data; name=\"\""), "an empty name"),
        (whole.replace(head, "Content-Type: text/plain"), "no disposition"),
        (whole.replace(&format!("{head}\r\n"), ""), "no head"),
        (whole.replace(head, &format!("X: {}\r\n{head}", "x".repeat(HEAD))), "a long head"),
    ] {
        assert_ne!(odd, whole, "{why}");
        assert!(read(odd.as_bytes()).is_err(), "{why}");
    }
    let many = vec![part("x", "", b""); PARTS + 1];
    assert!(read(&form(&many[1..])).is_ok());
    assert!(read(&form(&many)).is_err());
}

#[test]
fn a_boundary_is_read_from_the_content_type() {
    for (kind, expected) in [
        ("multipart/form-data; boundary=abc", Some("abc")),
        (
            "Multipart/Form-Data;charset=utf-8; Boundary=\"a(b)=\"",
            Some("a(b)="),
        ),
        ("multipart/form-data; boundary===1==", Some("==1==")),
        ("multipart/form-data", None),
        ("multipart/form-data; boundary=", None),
        ("multipart/form-data; boundary=\"a b\"", None),
        ("multipart/form-data; boundary=a; boundary=b", None),
        ("multipart/form-data; boundary=\"a\\\"b\"", None),
        ("multipart/form-data; boundary=ä", None),
    ] {
        assert_eq!(
            form_boundary(kind.as_bytes()).and_then(Result::ok),
            expected,
            "{kind}"
        );
    }
    let long = format!("multipart/form-data; boundary={}", "b".repeat(71));
    assert!(form_boundary(long.as_bytes()).is_some_and(|read| read.is_err()));
    assert_eq!(form_boundary(b"multipart/mixed; boundary=a"), None);
    assert_eq!(form_boundary(b"application/json"), None);
}

/// Pieces of forms, right and wrong.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"--B0undary",
        b"\r\n",
        b"--",
        b"Content-Disposition: form-data; name=\"model\"",
        b"Content-Disposition: form-data; name=\"n\"\r\n\r\n7",
        b"Content-Disposition: form-data; name=\"file\"; filename=\"a\"",
        b"Content-Disposition: form-data; name=\"extra\"\r\n\r\n {",
        b"Content-Disposition: form-data; name=\"image\"\r\n\r\n\xe3\x80\x80",
        b"\r\n\r\n",
        b"whisper-1",
        b"\r",
        b"-B0undary",
    ];
    prop_oneof![
        proptest::sample::select(words).prop_map(<[u8]>::to_vec),
        proptest::collection::vec(any::<u8>(), 0..40),
        (0..6usize, proptest::collection::vec(any::<u8>(), 0..60)).prop_map(
            |(name, content)| part(
                ["model", "file", "n", "fallbacks", "extra", "image[]"][name],
                "",
                &content
            )
        ),
    ]
}

proptest! {
    #[test]
    fn any_cut_gives_the_same(
        pieces in proptest::collection::vec(pieces(), 0..8),
        cuts in proptest::collection::vec(0..24usize, 0..200),
        closes in any::<bool>(),
    ) {
        let mut whole = pieces.concat();
        if closes {
            whole = form(&[whole]);
        }
        let at_once = read(&whole);
        prop_assert_eq!(&read_in(&whole, cuts.into_iter()), &at_once);
        prop_assert_eq!(&read_in(&whole, std::iter::repeat_n(1, whole.len())), &at_once);
        for field in at_once.into_iter().flatten() {
            prop_assert_eq!(&whole[field.span], field.value);
        }
    }

    #[test]
    fn a_form_of_any_file_is_read(content in proptest::collection::vec(any::<u8>(), 0..300), first in any::<bool>()) {
        let mut parts = vec![part("model", "", b"m"), part("file", "; filename=\"a\"", &content)];
        if first {
            parts.reverse();
        }
        prop_assert_eq!(model(&form(&parts)), Ok("m".to_owned()));
    }
}
