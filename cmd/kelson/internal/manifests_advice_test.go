package internal_test

import (
	"errors"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

const shopDefinition = `
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              documentName: {type: string}
              sizes: {items: {properties: {width: {}, height: {}}}}
              labels: {additionalProperties: {properties: {text: {}}}}
`

// The next step after a server refused an object.
func TestAdvice(t *testing.T) {
	object := func(text string) *unstructured.Unstructured {
		t.Helper()
		obj := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &obj.Object))
		return obj
	}
	undeclared := func(path string) error {
		return errors.New("failed to create typed patch object (default/a; example.com/v1, Kind=Shop): errors:\n  " +
			path + ": field not declared in schema")
	}
	refused := func(e *field.Error) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Shop"}, "a", field.ErrorList{e})
	}
	null := func(path ...string) error {
		return refused(field.TypeInvalid(field.NewPath(path[0], path[1:]...), "null", "must be of type array"))
	}
	_, unapproved := apihelpers.GetAPIApprovalState(nil)
	obj := object("{apiVersion: example.com/v1, kind: Shop, spec: {size: x, list: [{a: 1}], labels: {a.b/c: 1}}}")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("the server is down"), ""},
		{undeclared(".spec.Documentname"), "; did you mean spec.documentName?"},
		{undeclared(".spec.sizes[0].with"), "; did you mean spec.sizes[0].width?"},
		{undeclared(`.spec.labels[a.b/c].other`), "; the fields of spec.labels[a.b/c] are text"},
		{undeclared(".spec.colour"), "; the fields of spec are documentName, labels, sizes"},
		{undeclared(".status.a"), ""},
		{null("spec", "servers"), "; the file does not set spec.servers: a mutating webhook or a default does"},
		{null("spec", "size"), ""},
		{refused(field.Invalid(field.NewPath("spec", "list").Index(0).Child("a"), 1, "")), ""},
		{refused(field.Invalid(field.NewPath("spec", "labels").Key("a.b/c"), 1, "")), ""},
		{refused(field.Invalid(field.NewPath("metadata", "name"), "", "")), ""},
		{refused(field.Required(field.NewPath("spec", "name"), "")), ""},
		{refused(field.Required(field.NewPath("metadata", "annotations"), unapproved)),
			"; Kubernetes protects groups that end in .k8s.io and .kubernetes.io: use another group, or, for development " +
				`only, the marker +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved"`},
	} {
		got := manifests.Advice(obj, tt.err, func() *unstructured.Unstructured { return object(shopDefinition) })
		assert.Equalf(t, got, tt.want, "%v", tt.err)
	}
	got := manifests.Advice(obj, undeclared(".spec.a"), func() *unstructured.Unstructured { return nil })
	assert.Equalf(t, got, "", "without a definition")
}
