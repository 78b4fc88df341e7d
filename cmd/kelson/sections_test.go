package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// AUTHN-01 … 08, AUTHZ-01, ADM-03: the flags of all gates are in the help of serve, below their area, and in docs/reference/security.md.
func TestFlagsOfGatesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var help bytes.Buffer
	c := serveCommand()
	c.SetOut(&help)
	if err := c.Help(); err != nil {
		t.Fatal(err)
	}
	var s sections
	(&gates{}).addFlags(&s)
	(&signingFlags{}).addFlags(s.of("signing"))
	(&encryptionFlags{}).addFlags(s.of("state"))
	n := 0
	for _, area := range s.Order {
		_, below, found := strings.Cut(help.String(), "\n"+strings.ToUpper(area[:1])+area[1:]+" flags:\n\n")
		if !found {
			t.Errorf("the help has no flags of %s", area)
		}
		below, _, _ = strings.Cut(below, " flags:\n")
		s.FlagSets[area].VisitAll(func(f *pflag.Flag) {
			n++
			if f.Usage == "" || !strings.Contains(below, "--"+f.Name+" ") {
				t.Errorf("--%s is not in the help, below %s", f.Name, area)
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
