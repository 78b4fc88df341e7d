package model

import "strings"

// irregular are the words of English whose plural the rules miss and that kinds are called by.
var irregular = map[string]string{
	"analysis": "analyses", "axis": "axes", "basis": "bases", "child": "children", "crisis": "crises", "criterion": "criteria",
	"datum": "data", "foot": "feet", "goose": "geese", "half": "halves", "hero": "heroes", "hypothesis": "hypotheses", "index": "indices",
	"knife": "knives", "leaf": "leaves", "life": "lives", "loaf": "loaves", "man": "men", "matrix": "matrices", "medium": "media",
	"mouse": "mice", "person": "people", "phenomenon": "phenomena", "potato": "potatoes", "quiz": "quizzes", "self": "selves",
	"shelf": "shelves", "synopsis": "synopses", "thesis": "theses", "tomato": "tomatoes", "tooth": "teeth", "vertex": "vertices",
	"wife": "wives", "wolf": "wolves", "woman": "women", "echo": "echoes", "veto": "vetoes",
}

// uncountable have no plural of their own.
var uncountable = []string{"deer", "equipment", "feedback", "fish", "information", "media", "metadata", "middleware", "money", "news", "police", "rice",
	"series", "sheep", "software", "species", "data", "advice", "traffic", "hardware", "homework", "firmware"}

// Plural is the plural of a lower-case English word, by rule; a kind whose plural is another says so with +kubebuilder:resource:path.
func Plural(word string) string {
	for _, u := range uncountable {
		if strings.HasSuffix(word, u) {
			return word
		}
	}
	for one, many := range irregular {
		if word == one {
			return many
		}
	}
	switch {
	case word == "":
		return ""
	case endsIn(word, "s", "x", "z", "ch", "sh"):
		return word + "es"
	case endsIn(word, "y") && len(word) > 1 && !strings.ContainsRune("aeiou", rune(word[len(word)-2])):
		return word[:len(word)-1] + "ies"
	}
	return word + "s"
}

func endsIn(word string, suffixes ...string) bool {
	for _, s := range suffixes {
		if strings.HasSuffix(word, s) {
			return true
		}
	}
	return false
}
