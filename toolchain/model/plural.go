package model

import (
	"slices"
	"strings"
)

// irregular are words whose plural follows no rule below. As the end of a longer word they count too.
var irregular = map[string]string{
	"agenda": "agendas", "alias": "aliases", "alumnus": "alumni", "antenna": "antennas", "atlas": "atlas", "bias": "bias", "bus": "buses",
	"cactus": "cacti", "child": "children", "codex": "codices", "corpus": "corpora", "curriculum": "curriculums", "datum": "data", "die": "dice",
	"focus": "foci", "foot": "feet", "formula": "formulas", "genesis": "geneses", "goose": "geese", "index": "indices", "kilo": "kilos",
	"larva": "larvae", "louse": "lice", "matrix": "matrices", "mosquito": "mosquitos", "mouse": "mice", "nebula": "nebulae", "person": "people",
	"piano": "pianos", "photo": "photos", "quiz": "quizzes", "radius": "radii", "syllabus": "syllabi", "tooth": "teeth", "vertex": "vertices",
	"veto": "vetos", "vita": "vitae", "volcano": "volcanos", "vortex": "vortices", "appendix": "appendices", "criterion": "criteria",
	"phenomenon": "phenomena", "solo": "solos", "medium": "media", "forum": "forums", "cello": "cellos", "slo": "slos", "ox": "oxen", "thief": "thieves", "blouse": "blouses",
	"symposium": "symposia", "emphasis": "emphasis", "dwarf": "dwarfs", "auto": "autos", "alto": "altos", "soprano": "sopranos", "human": "humans",
}

// same are words whose plural is the word itself, beside those in -s.
var same = []string{"aircraft", "bison", "data", "deer", "equipment", "fish", "information", "media", "metadata", "money", "moose", "nova", "police",
	"rice", "salmon", "sheep", "supernova", "swine", "trout"}

// suffixes are rules, the first that fits counts: an ending, and what takes its place.
var suffixes = []struct{ end, plural string }{
	{"ss", "sses"}, {"us", "uses"}, {"sis", "ses"}, {"xis", "xes"}, {"s", "s"}, // most words in -s are plurals already
	{"ouse", "ouses"}, {"ix", "ixes"}, {"ex", "exes"}, {"x", "xes"}, {"z", "zes"}, {"ch", "ches"}, {"sh", "shes"},
	{"ay", "ays"}, {"ey", "eys"}, {"oy", "oys"}, {"uy", "uys"}, {"y", "ies"},
	{"oof", "oofs"}, {"ief", "iefs"}, {"arf", "arves"}, {"elf", "elves"}, {"alf", "alves"}, {"eaf", "eaves"}, {"oaf", "oaves"}, {"olf", "olves"},
	{"ife", "ives"}, {"man", "men"}, {"oo", "oos"}, {"dio", "dios"}, {"o", "oes"},
	{"rum", "ra"}, {"tum", "ta"}, {"rium", "ria"}, {"nium", "nia"}, {"mum", "ma"}, {"ndum", "nda"},
}

// Plural is the plural of a lower-case word, as kubebuilder's projects have it. It goes by the rules of English and some of its
// exceptions; a kind whose plural is another says so with +kubebuilder:resource:path.
func Plural(word string) string {
	if many, ok := irregular[word]; ok {
		return many
	}
	for one, many := range irregular {
		if stem, ok := strings.CutSuffix(word, one); ok && (stem == "" || len(one) > 3) {
			return stem + many
		}
	}
	if word == "" || slices.ContainsFunc(same, func(s string) bool { return strings.HasSuffix(word, s) }) {
		return word
	}
	for _, r := range suffixes {
		if stem, ok := strings.CutSuffix(word, r.end); ok {
			return stem + r.plural
		}
	}
	return word + "s"
}
