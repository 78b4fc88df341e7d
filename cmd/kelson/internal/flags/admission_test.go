package flags

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// Old versions of envtest pass --admission-control=AlwaysAdmit.
func TestAdmissionControl(t *testing.T) {
	for _, test := range []struct {
		args     []string
		disabled bool // NamespaceLifecycle, which is on by default
		err      string
	}{
		{nil, false, ""},
		{[]string{"--admission-control=AlwaysAdmit"}, true, ""},
		{[]string{"--admission-control=AlwaysAdmit,NamespaceLifecycle"}, false, ""},
		{[]string{"--disable-admission-plugins=NamespaceLifecycle"}, true, ""},
		{[]string{"--admission-control=Nothing"}, false, "Nothing"},
		{[]string{"--admission-control=AlwaysAdmit", "--enable-admission-plugins=AlwaysDeny"}, false,
			"mutually exclusive"},
	} {
		var o Admission
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(f)
		require.NoError(t, f.Parse(test.args))
		var cfg controlplane.Config
		err := o.Apply(&cfg)
		if test.err != "" {
			assert.ErrorContainsf(t, err, test.err, "%q", test.args)
			continue
		}
		if got := slices.Contains(cfg.Admission.Disable, "NamespaceLifecycle"); err != nil || got != test.disabled {
			t.Errorf("%q: disables %q: %v", test.args, cfg.Admission.Disable, err)
		}
	}
}
