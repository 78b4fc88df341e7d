package crd_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Rules whose types would be too large are refused before they are compiled, which would take
// many seconds.
func TestExpensiveRules(t *testing.T) {
	rule := "true"
	for i := 15; i >= 0; i-- {
		source := "{1:1}"
		if i > 0 {
			source = fmt.Sprintf("{x%d:x%[1]d}", i-1)
		}
		rule = fmt.Sprintf("[%s].all(x%d, %s)", source, i, rule)
	}
	quoted, _ := json.Marshal(rule)
	p := newPlane(t)
	for _, keys := range []string{`"rule":%s`, `"rule":"true","messageExpression":%s`} {
		a := p.do("POST", definitionsPath, widgets(`"rule":"self.color == oldSelf.color"`, fmt.Sprintf(keys, quoted))).want(422)
		if !strings.Contains(string(a.body), "expression is too complex") {
			t.Errorf("%s", a.body)
		}
	}
}
