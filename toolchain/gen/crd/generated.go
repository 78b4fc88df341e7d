package crd

import (
	"bytes"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Generated parses the file of a definition if it is generated: if it equals the output of YAML or
// has controller-gen's annotation. For other files it returns nil.
func (g *Generator) Generated(doc []byte) *apiextensionsv1.CustomResourceDefinition {
	if !bytes.Contains(doc, []byte("kind: CustomResourceDefinition\n")) {
		return nil
	}
	def := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(doc, def); err != nil || def.Kind != "CustomResourceDefinition" ||
		def.Spec.Group == "" || def.Spec.Names.Plural == "" {
		return nil
	}
	if def.Annotations["controller-gen.kubebuilder.io/version"] != "" {
		return def
	}
	for _, v := range def.Spec.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			return nil
		}
	}
	if again, err := g.emit.definition(def); err != nil || !bytes.Equal(again, doc) {
		return nil
	}
	return def
}
