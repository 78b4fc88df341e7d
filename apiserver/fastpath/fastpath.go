// Package fastpath has the switch that turns the fast paths off, for debugging.
//
// A fast path computes what a Kubernetes library would compute, at a fraction of the cost. It
// returns a result only if the result is certainly that of the library. Otherwise the caller uses
// the library, so all errors come from the library. docs/design/fastpaths.md lists all fast paths,
// what each gains, and its differential test.
//
// The packages below this folder are fast paths for validity, for field ownership (managedfields)
// and for JSON (trees for trees, strictjson for Go types). Packages shape and fieldset contain
// their common code.
//
// Every Config that leads to a fast path has a field NoFastPaths. It is an ordinary field: two
// control planes of one process can differ in it. The engine never reads the environment. Programs
// and test helpers do, with [DisabledByEnvironment], and pass the result on:
//
//	plane, err := controlplane.Start(ctx, controlplane.Config{NoFastPaths: fastpath.DisabledByEnvironment()})
package fastpath

import (
	"os"
	"strconv"
)

// Variable is the environment variable that turns all fast paths off.
const Variable = "KELSON_NO_FAST_PATHS"

// DisabledByEnvironment reports whether [Variable] is set to a true value as strconv.ParseBool
// reads it ("1", "true"). Any other value leaves the fast paths on.
func DisabledByEnvironment() bool {
	disabled, err := strconv.ParseBool(os.Getenv(Variable))
	return err == nil && disabled
}
