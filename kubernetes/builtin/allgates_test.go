package builtin

import (
	"os"
	"os/exec"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"kelson.dev/internal/require"
)

// allGates is set in the process that repeats the tests of the package with all feature gates on.
const allGates = "KELSON_TEST_ALL_FEATURE_GATES"

func TestMain(m *testing.M) {
	if os.Getenv(allGates) != "" {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{"AllAlpha": true, "AllBeta": true}); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// The tests of kinds pass with all feature gates on, too: a gate that a new version of Kubernetes
// adds may change a strategy, a validation or a field that a kind has. The gates exist once per
// process, so the tests run again in another one.
func TestKindsWithAllFeatureGates(t *testing.T) {
	if os.Getenv(allGates) != "" {
		t.Skip("this is the process with all feature gates")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), self, "-test.short", "-test.skip="+withDefaultGates)
	c.Env = append(os.Environ(), allGates+"=true")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("with all feature gates: %v\n%s", err, out)
	}
}

// withDefaultGates are the tests of what gates turn off by default, and of older releases, in which
// some gates depend on others that they do not have.
const withDefaultGates = "^(TestParseAPIs|TestLog|TestEmulatedDiscovery|TestEmulatedNewerAPI)$"
