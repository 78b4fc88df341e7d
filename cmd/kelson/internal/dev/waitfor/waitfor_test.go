package waitfor

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func TestConditionsHold(t *testing.T) {
	const object = `{"metadata":{"name":"a"},"status":{"phase":"DONE","n":3,"conditions":[{"type":"Ready","status":"True"}]}}`
	for text, want := range map[string]bool{
		"at/a:{.status.phase}=DONE":                                 true,
		"at/a:{.status.phase}=RUNNING":                              false,
		"at/a:.status.phase=DONE":                                   true,
		"at/a:status.phase=DONE":                                    true,
		"at/a:{.status.n}=3":                                        true,
		"at/a:{.status.phase}":                                      true,
		"at/a:{.status.absent}":                                     false,
		"at/a:{.status.absent}=x":                                   false,
		`at/a:{.status.conditions[?(@.type=="Ready")].status}=True`: true,
		`at/a:{.status.conditions[?(@.type=="Ready")].status}`:      true,
		`at/a:{.status.conditions[?(@.type=="Other")].status}`:      false,
	} {
		c, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		assert.Equalf(t, c.holds([]byte(object)), want, "%s holds", text)
	}
}

// A condition names its kind as kubectl does.
func TestNamesOfKinds(t *testing.T) {
	for text, want := range map[string]bool{
		"deployments/a:{.x}":       true,
		"deployment/a:{.x}":        true,
		"Deployment/a:{.x}":        true,
		"deploy/a:{.x}":            true,
		"deploy.apps/a:{.x}":       true,
		"deployments.apps/a:{.x}":  true,
		"deployments.other/a:{.x}": false,
		"dep/a:{.x}":               false,
	} {
		c, err := Parse(text)
		require.NoError(t, err)
		r := &metav1.APIResource{Name: "deployments", SingularName: "deployment", Kind: "Deployment",
			ShortNames: []string{"deploy"}}
		assert.Equalf(t, c.names("apps", r), want, "%s", text)
	}
}

func TestBadConditionsAreNamed(t *testing.T) {
	for _, text := range []string{"", "at/a", "at:{.x}=1", "/a:{.x}=1", "at/a:", "at/a:{.x=1", "a/b/c/d:{.x}=1"} {
		_, err := Parse(text)
		assert.ErrorContainsf(t, err, "OBJECT:JSONPATH=VALUE", "%q", text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("at/a:{.status.phase}=DONE")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := Parse(text); err == nil {
			c.holds([]byte(`{"status":{"phase":"DONE"}}`))
		}
	})
}
