use serde_json::{Value, json};

use super::*;

/// In Llama's form: three special tokens, all bytes, then words.
pub(crate) fn small() -> Value {
    let bytes = (0..=255).map(|byte| format!("<0x{byte:02X}>"));
    let words = "▁ t h e a c s 中 ▁t he ▁the ▁a at ▁c ▁cat ▁▁ ca th ▁th ▁中".split(' ').map(str::to_owned);
    let special = ["<unk>", "<s>", "</s>"].map(str::to_owned).into_iter();
    let added: Vec<Value> = special.clone().enumerate().map(|(id, word)| json!({"id": id, "content": word})).collect();
    let all = special.chain(bytes).chain(words).enumerate();
    let vocab: serde_json::Map<String, Value> = all.map(|(id, word)| (word, json!(id))).collect();
    json!({
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]},
        "pre_tokenizer": null,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "model": {
            "type": "BPE", "byte_fallback": true, "vocab": vocab,
            "merges": ["▁ t", "h e", "▁t he", "a t", "▁ c", "▁c at", "▁ a", "▁ ▁", "c a", "t h", "▁ th", "▁ 中"],
        },
    })
}

/// The other way in which Llama's tokenizers are written.
fn second() -> Value {
    let mut file = small();
    file["normalizer"] = Value::Null;
    file["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false});
    let merges = file["model"]["merges"].as_array().unwrap().iter();
    file["model"]["merges"] = merges.map(|pair| pair.as_str().unwrap().split(' ').collect::<Value>()).collect();
    file
}

/// The tokens of a text that comes in one piece.
fn encode(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut encoder = tokenizer.encoder();
    let mut tokens = encoder.push(text).unwrap();
    tokens.extend(encoder.finish().unwrap());
    tokens
}

fn open(file: &Value, vocabulary: i64) -> Result<Tokenizer> {
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), file.to_string()).unwrap();
    Tokenizer::open(path.path(), vocabulary)
}

#[test]
fn tokens_are_those_of_the_tokenizers_library() {
    // By `Tokenizer.from_file(…).encode(…).ids` of Hugging Face's tokenizers 0.23.3, from these very files.
    let [first, second] = [small(), second()].map(|file| open(&file, 279).unwrap());
    for (text, tokens) in [
        ("the cat", &[1, 269, 273][..]),
        ("中 é 中文", &[1, 278, 259, 198, 172, 278, 233, 153, 138]),
        ("cacat that hath", &[1, 272, 263, 264, 271, 267, 261, 271, 259, 261, 271, 261]),
        ("aaaa tttt   ", &[1, 270, 263, 263, 263, 267, 260, 260, 260, 274, 259]),
    ] {
        assert_eq!(encode(&first, text), tokens, "{text:?}");
        assert_eq!(encode(&second, text), tokens, "{text:?}");
    }
    // They differ where a text begins with a space.
    assert_eq!(encode(&first, " the  cat\nsat"), [1, 259, 269, 259, 273, 13, 265, 271]);
    assert_eq!(encode(&second, " the  cat\nsat"), [1, 269, 259, 273, 13, 265, 271]);
    assert_eq!(encode(&first, ""), [1]);
}

#[test]
fn added_tokens_are_known_in_the_text_and_part_it() {
    // By the same library.
    let [first, second] = [small(), second()].map(|file| open(&file, 279).unwrap());
    for (text, of_first, of_second) in [
        ("the</s>cat", &[1, 269, 2, 273][..], &[1, 269, 2, 264, 271][..]),
        ("the</s> cat the", &[1, 269, 2, 259, 273, 269], &[1, 269, 2, 273, 269]),
        ("</s>the", &[1, 2, 269], &[1, 2, 260, 268]),
        (
            "<s>the</s></s>the <unk",
            &[1, 1, 269, 2, 2, 269, 259, 63, 120, 113, 110],
            &[1, 1, 260, 268, 2, 2, 260, 268, 259, 63, 120, 113, 110],
        ),
        (
            "a<unk>at\nthe\ncat  the",
            &[1, 270, 0, 259, 271, 13, 260, 268, 13, 264, 271, 259, 269],
            &[1, 270, 0, 271, 13, 260, 268, 13, 264, 271, 259, 269],
        ),
    ] {
        assert_eq!(encode(&first, text), of_first, "{text:?}");
        assert_eq!(encode(&second, text), of_second, "{text:?}");
    }
    let mut file = small();
    file["added_tokens"][2]["normalized"] = json!(true);
    let tokenizer = open(&file, 279).unwrap();
    let message = tokenizer.encoder().push("the</s>cat").unwrap_err().to_string();
    assert!(message.contains("\"</s>\"") && message.contains("in another way"), "{message}");
    assert_eq!(encode(&tokenizer, "the cat"), [1, 269, 273]);
}

#[test]
fn what_goes_around_a_text_is_what_the_template_says() {
    let mut file = small();
    file["post_processor"] = Value::Null;
    let bare = open(&file, 279).unwrap();
    assert_eq!((encode(&bare, "the cat"), encode(&bare, "")), (vec![269, 273], vec![]));
    let mut file = small();
    let end = json!({"SpecialToken": {"id": "</s>", "type_id": 0}});
    file["post_processor"]["single"].as_array_mut().unwrap().push(end);
    file["post_processor"]["special_tokens"]["</s>"] = json!({"id": "</s>", "ids": [2], "tokens": ["</s>"]});
    let both = open(&file, 279).unwrap();
    assert_eq!((encode(&both, "the cat"), encode(&both, "")), (vec![1, 269, 273, 2], vec![1, 2]));
}

#[test]
fn a_text_in_pieces_has_the_tokens_of_the_whole_and_only_its_last_word_waits() {
    let tokenizer = open(&small(), 279).unwrap();
    let mut random = crate::data::random::Random::new(&[7]);
    let letters: Vec<char> = "the cas  中é\n".chars().collect();
    let mut text: String = (0..5000).map(|_| letters[random.below(letters.len() as u32) as usize]).collect();
    text.insert_str(2500, "</s>");
    let whole = encode(&tokenizer, &text);
    for length in [1, 2, 3, 7, 1000] {
        let (mut encoder, mut tokens) = (tokenizer.encoder(), Vec::new());
        for piece in text.chars().collect::<Vec<_>>().chunks(length) {
            tokens.extend(encoder.push(&piece.iter().collect::<String>()).unwrap());
            assert!(encoder.waiting() < 40, "{} symbols are kept", encoder.waiting());
        }
        tokens.extend(encoder.finish().unwrap());
        assert_eq!(tokens, whole, "pieces of {length}");
    }
    // All symbols merged in one go, as the library does it.
    let plain = text.replace("</s>", "").replace(' ', "▁");
    let symbols = |character: char| match tokenizer.characters.get(&character) {
        Some(id) => vec![*id],
        None => character.to_string().bytes().map(|byte| tokenizer.bytes[usize::from(byte)]).collect(),
    };
    let symbols = std::iter::once(SPACE).chain(plain.chars()).flat_map(symbols).collect();
    let expected: Vec<u32> =
        std::iter::once(1).chain(merging::Merging::new(&tokenizer.merges, symbols).run()).collect();
    assert_eq!(encode(&tokenizer, &plain), expected);
}

#[test]
fn a_text_without_an_end_of_a_word_is_refused_before_it_fills_memory() {
    let tokenizer = open(&small(), 279).unwrap();
    let spaces = " ".repeat(1 << 21);
    assert!(tokenizer.encoder().push(&spaces).unwrap_err().to_string().contains("in a row"));
}

#[test]
fn a_tokenizer_of_another_vocabulary_or_kind_is_refused_by_name() {
    let refusal = |file: &Value, vocabulary| format!("{:#}", open(file, vocabulary).unwrap_err());
    let message = refusal(&small(), 278);
    assert!(message.contains("tokens up to 278") && message.contains("has 278"), "{message}");
    let message = refusal(&small(), 32_000);
    assert!(message.contains("has 279 tokens") && message.contains("has 32000"), "{message}");
    for (pointer, value, told) in [
        ("/model/type", json!("WordPiece"), "no byte-pair encoding"),
        ("/model/byte_fallback", json!(false), "no byte-pair encoding"),
        ("/model/merges/0", json!("▁ zz"), "needs \"zz\""),
        ("/normalizer", json!({"type": "NFC"}), "in another way"),
        ("/normalizer/normalizers/1/pattern", json!({"Regex": " "}), "in another way"),
        ("/pre_tokenizer", json!({"type": "ByteLevel"}), "in another way"),
        ("/post_processor", json!({"type": "ByteLevel"}), "in another way"),
        ("/post_processor/single", json!([{"SpecialToken": {"id": "<s>"}}]), "a text 0 times"),
        ("/post_processor/special_tokens", json!({}), "needs \"<s>\""),
        ("/model", json!([]), "no tokenizer.json"),
    ] {
        let mut file = small();
        *file.pointer_mut(pointer).unwrap() = value;
        let message = refusal(&file, 279);
        assert!(message.contains(told), "{pointer}: {message}");
    }
    let mut file = small();
    let words = file["model"]["vocab"].as_object_mut().unwrap();
    let id = words.remove("<0x41>").unwrap();
    words.insert("unused".to_owned(), id);
    assert!(refusal(&file, 279).contains("each byte"));
    assert!(format!("{:#}", Tokenizer::open(Path::new("/nowhere/x.json"), 1).unwrap_err()).contains("/nowhere/x.json"));
}
