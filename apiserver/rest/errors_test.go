package rest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestErrorsAreLimited(t *testing.T) {
	invalidErrors := func(n int, value string) (errs field.ErrorList) {
		for i := range n {
			errs = append(errs, field.Invalid(field.NewPath("spec").Index(i), value, "wrong"))
		}
		return errs
	}
	for _, test := range []struct {
		name string
		errs field.ErrorList
		want int
		last string
	}{
		{"none", nil, 0, ""},
		{"as many as allowed", invalidErrors(maxErrors, "x"), maxErrors, "wrong"},
		{"too many", invalidErrors(60_000, "x"), maxErrors + 1,
			"there are 60000 errors, of which the first 500 are shown"},
		{"large values", invalidErrors(10, strings.Repeat("x", maxErrorText/4)),
			4, "there are 10 errors, of which the first 3 are shown"},
		{"one that is too large", invalidErrors(1, strings.Repeat("x", 2*maxErrorText)), 1, "wrong"},
	} {
		got := firstErrors(test.errs)
		if len(got) != test.want {
			t.Errorf("%s: %d errors, want %d", test.name, len(got), test.want)
		}
		if test.want > 0 && !strings.HasSuffix(got[len(got)-1].ErrorBody(), test.last) {
			t.Errorf("%s: the last is %.200q", test.name, got[len(got)-1].ErrorBody())
		}
	}
}
