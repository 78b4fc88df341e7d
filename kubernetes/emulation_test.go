package kubernetes_test

import (
	"errors"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/emulation"
)

// Versions and errors are those of kube-apiserver's --emulated-version.
func TestParse(t *testing.T) {
	for _, test := range []struct{ emulated, minCompatible, want, err string }{
		{"", "", " ", ""},
		{"1.37", "", " ", ""},
		{"1.36", "", "1.36 1.35", ""},
		{"kube=1.34", "", "1.34 1.34", ""},
		{"1.36", "1.34", "1.36 1.34", ""},
		{"1.33", "", "", "emulation version 1.33 is not between [1.34, 1.37.0]"},
		{"1.38", "", "", "emulation version 1.38 is not between [1.34, 1.37.0]"},
		{"1.34.2", "", "", "patch version not allowed, got: kube=1.34.2"},
		{"wardle=1.36", "", "", "component not registered: wardle"},
		{"old", "", "", `could not parse "old" as version`},
		{"1.34,1.35", "", "", "duplicate version flag, kube=1.34 and kube=1.35"},
		{"1.35", "1.36", "", "minCompatibilityVersion version 1.36 is not between [1.34, 1.35]"},
	} {
		var least []string
		if test.minCompatible != "" {
			least = []string{test.minCompatible}
		}
		var emulated []string
		if test.emulated != "" {
			emulated = []string{test.emulated}
		}
		got, err := emulation.ParseFlags(emulated, least)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q %q: got %+v, %v, want error %q", test.emulated, test.minCompatible, got, err, test.err)
			}
			continue
		}
		if text := got.Emulated + " " + got.MinCompatible; err != nil || text != test.want {
			t.Errorf("%q %q: got %q, %v, want %q", test.emulated, test.minCompatible, text, err, test.want)
		}
	}
}

// Another version is refused while control planes run, and possible afterwards.
func TestClaim(t *testing.T) {
	old, err := emulation.Parse("1.34")
	require.NoError(t, err)
	release, err := old.Claim()
	require.NoError(t, err)
	got := utilfeature.DefaultMutableFeatureGate.EmulationVersion().String()
	assert.Equalf(t, got, "1.34", "the gates emulate")
	again, err := old.Claim()
	require.NoError(t, err)
	if _, err := (emulation.Version{}).Claim(); !errors.Is(err, emulation.ErrOtherVersion) ||
		!strings.Contains(err.Error(), "they emulate 1.34") {
		t.Errorf("another version: %v", err)
	}
	release()
	release() // has no effect
	assert.ErrorIsf(t, (emulation.Version{}).Use(), emulation.ErrOtherVersion, "while one claim is left")
	again()
	assert.NoError(t, (emulation.Version{}).Use())
}

func TestEnvironment(t *testing.T) {
	t.Setenv(emulation.Variable, "1.35")
	if v, err := emulation.FromEnvironment(); err != nil || v.Emulated != "1.35" {
		t.Error(v, err)
	}
	t.Setenv(emulation.Variable, "1.2")
	if _, err := emulation.FromEnvironment(); err == nil || !strings.HasPrefix(err.Error(), emulation.Variable+": ") {
		t.Error(err)
	}
}
