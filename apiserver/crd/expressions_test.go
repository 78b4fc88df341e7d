package crd_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"kelson.dev/apiserver/attacktest/bodies"
	"kelson.dev/internal/assert"
)

// Rules whose types would be too large are refused before they are compiled, which would take
// many seconds.
func TestExpensiveRules(t *testing.T) {
	quoted, _ := json.Marshal(bodies.LargeType(16))
	p := newPlane(t)
	for _, keys := range []string{`"rule":%s`, `"rule":"true","messageExpression":%s`} {
		a := p.do("POST", definitionsPath, widgets(`"rule":"self.color == oldSelf.color"`, fmt.Sprintf(keys, quoted))).
			want(422)
		assert.Contains(t, string(a.body), "expression is too complex")
	}
}
