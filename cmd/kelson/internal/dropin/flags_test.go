package dropin

import (
	"testing"

	"kelson.dev/cmd/kelson/internal/flags"
)

// This command accepts every flag of kube-apiserver.
func TestFlagsOfKubeAPIServer(t *testing.T) {
	c := APIServerCommand()
	c.InitDefaultHelpFlag()
	for _, u := range flags.KubeAPIServer() {
		if f := c.Flags().Lookup(u.Name); f == nil || f.Shorthand != u.Shorthand {
			t.Errorf("--%s: %v", u.Name, f)
		}
	}
}
