package scaffold_test

import (
	"testing"

	"kelson.dev/toolchain/scaffold/yamledit"
)

// AddItem adds an item once and keeps comments and indentation, and RemoveItem restores the text.
func TestAddAndRemoveItem(t *testing.T) {
	for _, test := range []struct{ src, with string }{
		{"", "resources:\n- b.yaml\n"},
		{"# why\nnamespace: x\n", "# why\nnamespace: x\nresources:\n- b.yaml\n"},
		{"resources:\n- a.yaml # first\n# [later]\n#- c.yaml\nnamespace: x\n",
			"resources:\n- a.yaml # first\n- b.yaml\n# [later]\n#- c.yaml\nnamespace: x\n"},
		{"resources:\n  - a.yaml\n", "resources:\n  - a.yaml\n  - b.yaml\n"},
	} {
		got, err := yamledit.AddItem([]byte(test.src), "resources", "b.yaml")
		if err != nil || string(got) != test.with {
			t.Errorf("%v\n%s\nwant\n%s", err, got, test.with)
		}
		if again, err := yamledit.AddItem(got, "resources", "b.yaml"); err != nil || string(again) != test.with {
			t.Errorf("a second AddItem changes the text: %v\n%s", err, again)
		}
		back, err := yamledit.RemoveItem(got, "resources", "b.yaml")
		if err != nil || string(back) != test.src {
			t.Errorf("RemoveItem does not restore the text: %v\n%s", err, back)
		}
	}
}

func TestOtherListsAreRefused(t *testing.T) {
	for _, src := range []string{"resources: [a.yaml]\n", "resources: a.yaml\n", "resources: [\n"} {
		if got, err := yamledit.AddItem([]byte(src), "resources", "b.yaml"); err == nil {
			t.Errorf("%s became %s", src, got)
		}
	}
}
