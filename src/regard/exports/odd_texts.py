"""Texts of several scripts, with what normalisers and splitters of tokenisers treat differently."""

ODD_TEXTS = (
    "Größe und Straße – „Zitat“, don't re-enter the 123.45 halls",
    "Привет, мир! Как дела?",
    "你好,世界。这是一个测试",
    "日本語のテキスト、です カタカナ ｶﾀｶﾅ",
    "مرحبا بالعالم، كيف الحال؟",
    "नमस्ते दुनिया",
    "สวัสดีชาวโลก",
    "한국어 문장 \u1112\u1161\u11ab",
    "ΣΑΣ İstanbul ǅ ẞ",
    "  two  spaces \tand\na line\r\nmore\u00a0\u3000\u0085\ufeff\u200b",
    "<s>hi</s> <unk> <pad> ##x ## A#B <0x41>",
    "e\u0301 a\u0323\u0307 \u0344 Å ﬁ ① ½ ㍿ ㋿",
    "🙂👍🏽 👨‍👩‍👧 \U0001f9ff\U00011384\U000113c5",
    "\u0600a \u06dda \u070f\u0301a a\u0301\u0323b \ta\u0301\t\u0301 a\u200db \u00a9\u200d",
    "\u088f \ua7ce \U00016ea0 \u1acf",
    "",
    " ",
)
