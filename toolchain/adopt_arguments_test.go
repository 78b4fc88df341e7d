package toolchain_test

import (
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/toolchain/adopt"
)

// Messages about arguments of controller-gen say what kelson generate has instead.
func TestUnsupportedArguments(t *testing.T) {
	for args, want := range map[string]string{
		"crd paths=./... output:crd:dir=x object:headerFile=h": "",
		"applyconfiguration:headerFile=X paths=./...": "kelson generate has no option headerFile=X for generator applyconfiguration; " +
			"name the generator alone (the header of its files is hack/boilerplate.go.txt)",
		"crd paths=./... output:crd:stdout": "kelson generate has no output:crd:stdout; it has only output:dir=DIR and, for crd, rbac and webhook, output:GENERATOR:dir=DIR",
		"crd rbac output:crd:none output:rbac:stdout": "kelson generate has no output:crd:none, output:rbac:stdout; " +
			"it has only output:dir=DIR and, for crd, rbac and webhook, output:GENERATOR:dir=DIR",
		"schemapatch:manifests=x": "kelson generate has no schemapatch:manifests=x; its generator crd writes complete definitions",
		"client:headerFile=X":     `argument "client:headerFile=X": generator client has no options; name it alone`,
		"object:nothing=1":        `controller-gen argument "object:nothing=1": +object has no argument "nothing"`,
	} {
		parsed, err := adopt.Parse(strings.Fields(args))
		if err == nil {
			err = parsed.Unsupported()
		}
		if got := ""; err == nil && want != got || err != nil && err.Error() != want {
			t.Errorf("%s: error %v, want %s", args, err, want)
		}
	}
	for arg, want := range map[string]bool{
		"applyconfiguration:headerFile=X": true, "client:headerFile=X": true, "schemapatch:manifests=x": true,
		"object:headerFile=h": true,
		"paths=./...":         true, "output:crd:stdout": true, "applyconfiguration": false, "crd": false,
		"other:headerFile=X": false, "./dir": false,
	} {
		assert.Equalf(t, adopt.IsArgument(arg), want, "IsArgument(%q)", arg)
	}
}
