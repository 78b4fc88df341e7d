package model

import (
	"go/parser"
	"go/token"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func TestDoc(t *testing.T) {
	for src, want := range map[string]string{
		"":                                    "",
		"// One.":                             "One.",
		"// One\n// two.\n//\n// Three.":      "One\ntwo.\n\nThree.",
		"// One.\n// +optional\n// Two.":      "One.\nTwo.",
		"// One.\n// TODO: not this\n// Two.": "One.\nTwo.",
		"// One.\n// ---\n// Not this.":       "One.",
		"// ```\n// TODO\n// ---\n// ```\n// TODO(me)": "```\nTODO\n---\n```",
		"/* One.\n\n   Two.\n*/":                       "One.\n\nTwo.",
		"// +optional":                                 "",
		"//+optional\n//nolint:all\n// One.":           "One.",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", src+"\npackage p\n", parser.ParseComments)
		require.NoError(t, err)
		assert.Equalf(t, doc(f.Doc), want, "%q is documented as", src)
	}
}
