package image

import (
	"runtime/debug"
	"testing"
)

// A bill has the known license of a module, and the known version if the linker records (devel). A
// recorded version stays.
func TestModuleFacts(t *testing.T) {
	facts := map[string]Facts{"example.com/m": {License: "Apache-2.0", Version: "v1.2.3"}}
	for name, tt := range map[string]struct {
		module                 debug.Module
		version, license, purl string
	}{
		"without a version": {debug.Module{Path: "example.com/m", Version: "(devel)"}, "v1.2.3", "Apache-2.0",
			"pkg:golang/example.com/m@v1.2.3"},
		"with a version": {debug.Module{Path: "example.com/m", Version: "v0.1.0"}, "v0.1.0", "Apache-2.0",
			"pkg:golang/example.com/m@v0.1.0"},
		"replaced": {
			debug.Module{Path: "example.com/old", Version: "v0.1.0",
				Replace: &debug.Module{Path: "example.com/m", Version: "(devel)"}},
			"v1.2.3", "Apache-2.0", "pkg:golang/example.com/m@v1.2.3",
		},
		"not known": {debug.Module{Path: "example.com/other", Version: "(devel)"}, "(devel)", "NOASSERTION", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, purl := module(&tt.module, facts), ""
			if len(got.Refs) > 0 {
				purl = got.Refs[0].Locator
			}
			if got.Version != tt.version || got.Declared != tt.license || purl != tt.purl {
				t.Errorf("version %s, license %s, purl %q; want %s, %s, %q", got.Version, got.Declared, purl,
					tt.version, tt.license, tt.purl)
			}
		})
	}
}
