//! The configuration `english`: words that say nothing, and the stems of the others (Snowball's English algorithm,
//! known as Porter 2).

/// Words that documents and queries leave out, in order.
const STOP_WORDS: &str = "\
    a about above after again against all am an and any are as at be because been before being below \
    between both but by can did do does doing don down during each few for from further had has have \
    having he her here hers herself him himself his how i if in into is it its itself just me more most \
    my myself no nor not now of off on once only or other our ours ourselves out over own s same she \
    should so some such t than that the their theirs them themselves then there these they this those \
    through to too under until up very was we were what when where which while who whom why will with \
    you your yours yourself yourselves";

/// What begins words whose first region is longer than the rule says.
const LONG_STARTS: [&str; 3] = ["gener", "commun", "arsen"];

/// Words with stems of their own, by twos.
const STEMS: [[&str; 2]; 18] = [
    ["skis", "ski"],
    ["skies", "sky"],
    ["dying", "die"],
    ["lying", "lie"],
    ["tying", "tie"],
    ["idly", "idl"],
    ["gently", "gentl"],
    ["ugly", "ugli"],
    ["early", "earli"],
    ["only", "onli"],
    ["singly", "singl"],
    ["sky", "sky"],
    ["news", "news"],
    ["howe", "howe"],
    ["atlas", "atlas"],
    ["cosmos", "cosmos"],
    ["bias", "bias"],
    ["andes", "andes"],
];

/// Words that are done once they have lost their plural.
const WHOLE: [&str; 8] =
    ["inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"];

/// Whether a word in lower case is left out.
pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.split(' ').any(|stop| stop == word)
}

/// The stem of a word in lower case.
pub(super) fn stem(word: &str) -> String {
    if let Some([_, stem]) = STEMS.iter().find(|[own, _]| *own == word) {
        return (*stem).to_string();
    }
    let mut stem = Stem::of(word);
    if stem.letters.len() < 3 {
        return word.to_string();
    }
    stem.plural();
    if !WHOLE.iter().any(|whole| stem.is(whole)) {
        stem.past_and_ing();
        stem.final_y();
        stem.double_suffixes();
        stem.full_suffixes();
        stem.bare_suffixes();
        stem.final_e_and_l();
    }
    stem.letters.iter().map(|c| if *c == 'Y' { 'y' } else { *c }).collect()
}

/// A word on its way to its stem. A `Y` is a y that is a consonant.
struct Stem {
    letters: Vec<char>,
    /// Where the first region begins: behind the first consonant that follows a vowel.
    r1: usize,
    /// The same inside the first region.
    r2: usize,
}

fn is_vowel(c: char) -> bool {
    matches!(c, 'a' | 'e' | 'i' | 'o' | 'u' | 'y')
}

/// The place behind the first consonant that follows a vowel, from some place on.
fn region(letters: &[char], from: usize) -> usize {
    let vowel = (from..letters.len()).find(|at| is_vowel(letters[*at]));
    let consonant = vowel.and_then(|vowel| (vowel..letters.len()).find(|at| !is_vowel(letters[*at])));
    consonant.map_or(letters.len(), |at| at + 1)
}

impl Stem {
    fn of(word: &str) -> Stem {
        let mut letters: Vec<char> = word.chars().collect();
        for at in 0..letters.len() {
            if letters[at] == 'y' && (at == 0 || is_vowel(letters[at - 1])) {
                letters[at] = 'Y';
            }
        }
        let long = LONG_STARTS.iter().find(|start| word.starts_with(**start)).map(|start| start.len());
        let r1 = long.unwrap_or_else(|| region(&letters, 0));
        let r2 = region(&letters, r1);
        Stem { letters, r1, r2 }
    }

    fn is(&self, word: &str) -> bool {
        self.letters.iter().copied().eq(word.chars())
    }

    fn ends_with(&self, suffix: &str) -> bool {
        let count = suffix.chars().count();
        let start = self.letters.len().checked_sub(count);
        start.is_some_and(|start| self.letters[start..].iter().copied().eq(suffix.chars()))
    }

    /// Where a suffix begins that is the longest one of a list, and its number there.
    fn longest(&self, suffixes: &[&str]) -> Option<(usize, usize)> {
        let found = suffixes.iter().enumerate().filter(|(_, suffix)| self.ends_with(suffix));
        let (n, suffix) = found.max_by_key(|(_, suffix)| suffix.len())?;
        Some((self.letters.len() - suffix.len(), n))
    }

    fn replace(&mut self, from: usize, by: &str) {
        self.letters.truncate(from);
        self.letters.extend(by.chars());
    }

    fn has_vowel_before(&self, end: usize) -> bool {
        self.letters[..end].iter().any(|c| is_vowel(*c))
    }

    /// Whether what stands before some place ends with a short syllable.
    fn is_short_before(&self, end: usize) -> bool {
        match self.letters[..end] {
            [a, b] => is_vowel(a) && !is_vowel(b),
            [.., a, b, c] => !is_vowel(a) && is_vowel(b) && !is_vowel(c) && !matches!(c, 'w' | 'x' | 'Y'),
            _ => false,
        }
    }

    /// Plurals.
    fn plural(&mut self) {
        let Some((from, n)) = self.longest(&["sses", "ied", "ies", "us", "ss", "s"]) else { return };
        match n {
            0 => self.replace(from, "ss"),
            1 | 2 => self.replace(from, if from > 1 { "i" } else { "ie" }),
            // Not the letter right before the s.
            5 if from > 0 && self.has_vowel_before(from - 1) => self.replace(from, ""),
            _ => {}
        }
    }

    /// `-ed`, `-ing` and their adverbs.
    fn past_and_ing(&mut self) {
        let Some((from, n)) = self.longest(&["eed", "eedly", "ed", "edly", "ing", "ingly"]) else { return };
        if n < 2 {
            if from >= self.r1 {
                self.replace(from, "ee");
            }
            return;
        }
        if !self.has_vowel_before(from) {
            return;
        }
        self.replace(from, "");
        if ["at", "bl", "iz"].iter().any(|end| self.ends_with(end)) {
            self.letters.push('e');
        } else if ["bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt"].iter().any(|end| self.ends_with(end))
        {
            self.letters.pop();
        } else if self.letters.len() == self.r1 && self.is_short_before(self.letters.len()) {
            self.letters.push('e');
        }
    }

    fn final_y(&mut self) {
        if let [_, .., before, last @ ('y' | 'Y')] = self.letters.as_mut_slice()
            && !is_vowel(*before)
        {
            *last = 'i';
        }
    }

    /// Suffixes of two parts, in the first region.
    fn double_suffixes(&mut self) {
        const SUFFIXES: [(&str, &str); 24] = [
            ("tional", "tion"),
            ("enci", "ence"),
            ("anci", "ance"),
            ("abli", "able"),
            ("entli", "ent"),
            ("izer", "ize"),
            ("ization", "ize"),
            ("ational", "ate"),
            ("ation", "ate"),
            ("ator", "ate"),
            ("alism", "al"),
            ("aliti", "al"),
            ("alli", "al"),
            ("fulness", "ful"),
            ("ousli", "ous"),
            ("ousness", "ous"),
            ("iveness", "ive"),
            ("iviti", "ive"),
            ("biliti", "ble"),
            ("bli", "ble"),
            ("ogi", "og"),
            ("fulli", "ful"),
            ("lessli", "less"),
            ("li", ""),
        ];
        let Some((from, n)) = self.longest(&SUFFIXES.map(|(suffix, _)| suffix)) else { return };
        let before = from.checked_sub(1).map(|at| self.letters[at]);
        let fits = match SUFFIXES[n].0 {
            "ogi" => before == Some('l'),
            "li" => before.is_some_and(|c| "cdeghkmnrt".contains(c)),
            _ => true,
        };
        if from >= self.r1 && fits {
            self.replace(from, SUFFIXES[n].1);
        }
    }

    fn full_suffixes(&mut self) {
        const SUFFIXES: [(&str, &str); 9] = [
            ("tional", "tion"),
            ("ational", "ate"),
            ("alize", "al"),
            ("icate", "ic"),
            ("iciti", "ic"),
            ("ical", "ic"),
            ("ful", ""),
            ("ness", ""),
            ("ative", ""),
        ];
        let Some((from, n)) = self.longest(&SUFFIXES.map(|(suffix, _)| suffix)) else { return };
        let region = if SUFFIXES[n].0 == "ative" { self.r2 } else { self.r1 };
        if from >= region.max(self.r1) {
            self.replace(from, SUFFIXES[n].1);
        }
    }

    /// Suffixes that go, in the second region.
    fn bare_suffixes(&mut self) {
        const SUFFIXES: [&str; 18] = [
            "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ism", "ate",
            "iti", "ous", "ive", "ize", "ion",
        ];
        let Some((from, n)) = self.longest(&SUFFIXES) else { return };
        let before = from.checked_sub(1).map(|at| self.letters[at]);
        if from >= self.r2 && (SUFFIXES[n] != "ion" || matches!(before, Some('s' | 't'))) {
            self.replace(from, "");
        }
    }

    fn final_e_and_l(&mut self) {
        let Some(last) = self.letters.len().checked_sub(1) else { return };
        let goes = match self.letters[last] {
            'e' => last >= self.r2 || last >= self.r1 && !self.is_short_before(last),
            'l' => last >= self.r2 && last > 0 && self.letters[last - 1] == 'l',
            _ => false,
        };
        if goes {
            self.letters.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_stems() {
        let expected = [
            ("academy", "academi"),
            ("dinosaurs", "dinosaur"),
            ("hopping", "hop"),
            ("hoping", "hope"),
            ("relational", "relat"),
            ("generously", "generous"),
            ("skies", "sky"),
            ("cries", "cri"),
            ("ties", "tie"),
            ("agreed", "agre"),
            ("succeeds", "succeed"),
            ("by", "by"),
            ("sayings", "say"),
            ("controlling", "control"),
            ("youth", "youth"),
        ];
        for (word, stemmed) in expected {
            assert_eq!(stem(word), stemmed, "{word}");
        }
    }

    #[test]
    fn stop_words_are_whole_words() {
        assert!(is_stop_word("the") && is_stop_word("a") && is_stop_word("yourselves"));
        assert!(!is_stop_word("") && !is_stop_word("th") && !is_stop_word("dinosaur"));
    }
}
