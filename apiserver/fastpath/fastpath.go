// Package fastpath has the switch that support uses to turn the fast paths off.
//
// A fast path computes what a Kubernetes library would compute, at a fraction of the cost. It
// returns a result only if the result is certainly that of the library. Otherwise the caller uses
// the library, so all errors come from the library. docs/design/fastpaths.md lists all fast paths,
// what each gains, and its differential test.
//
// The packages below this folder are fast paths, named by what they decide: validity, managedfields
// for field ownership, and trees for JSON. Packages shape and fieldset are what they share.
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
