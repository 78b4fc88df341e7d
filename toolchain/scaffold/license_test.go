package scaffold

import (
	"strings"
	"testing"
)

func TestBoilerplate(t *testing.T) {
	for _, tc := range []struct{ license, owner, begin, end string }{
		{"", "", "", ""},
		{"none", "", "", ""},
		{"copyright", "Example Inc", "/*\nCopyright 2026 Example Inc.\n*/\n", "*/\n"},
		{"copyright", "", "/*\nCopyright 2026.\n*/\n", "*/\n"},
		{"apache2", "Example", "/*\nCopyright 2026 Example.\n\nLicensed under the Apache License",
			"limitations under the License.\n*/\n"},
	} {
		got, err := boilerplate(tc.license, tc.owner, 2026)
		if err != nil || !strings.HasPrefix(got, tc.begin) || !strings.HasSuffix(got, tc.end) ||
			tc.begin == "" && got != "" {
			t.Errorf("%s, %s: %q, %v", tc.license, tc.owner, got, err)
		}
	}
	for license, owner := range map[string]string{"mit": "", "none": "Example"} {
		if _, err := boilerplate(license, owner, 2026); err == nil {
			t.Errorf("%s, %s: no error", license, owner)
		}
	}
}
