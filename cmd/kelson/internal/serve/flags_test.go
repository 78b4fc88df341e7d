package serve

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"kelson.dev/cmd/kelson/internal/flags"
	"kelson.dev/internal/require"
)

// The flags of all gates are in the help of serve, below their area, and in
// docs/reference/security.md.
func TestFlagsOfGatesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/reference/security.md")
	require.NoError(t, err)
	var help bytes.Buffer
	c := Command()
	c.SetOut(&help)
	require.NoError(t, c.Help())
	var s flags.Sections
	(&flags.Gates{}).AddFlags(&s)
	(&flags.Signing{}).AddFlags(s.Area("signing"))
	(&flags.Encryption{}).AddFlags(s.Area("state"))
	n := 0
	for _, area := range s.Order {
		_, below, found := strings.Cut(help.String(), "\n"+strings.ToUpper(area[:1])+area[1:]+" flags:\n\n")
		if !found {
			t.Errorf("the help lists no flags of area %s", area)
		}
		below, _, _ = strings.Cut(below, " flags:\n")
		s.FlagSets[area].VisitAll(func(f *pflag.Flag) {
			if f.Deprecated != "" {
				return // the help hides it
			}
			n++
			if f.Usage == "" || !strings.Contains(below, "--"+f.Name+" ") {
				t.Errorf("the help does not list --%s in area %s", f.Name, area)
			}
			if !strings.Contains(string(page), "`--"+f.Name+"`") {
				t.Errorf("--%s is not in docs/reference/security.md", f.Name)
			}
		})
	}
	if n < 70 {
		t.Errorf("%d flags", n)
	}
}
