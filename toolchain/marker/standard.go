package marker

// Standard is the registry of the markers of controller-gen and of Kubernetes' own generators.
func Standard() *Registry {
	var defs []Definition
	add := func(on Target, value Kind, names ...string) {
		for _, n := range names {
			defs = append(defs, Definition{Name: n, On: on, Value: value})
		}
	}
	inert := func(names ...string) {
		for _, n := range names {
			defs = append(defs, Definition{Name: n, On: Anywhere, Value: Raw, Optional: true, Inert: true})
		}
	}
	const v = "kubebuilder:validation:"

	// The API group of a package, and what is generated for it.
	defs = append(defs, Definition{Name: "groupName", On: OnPackage, Value: String, Optional: true})
	add(OnPackage, String, "versionName")
	add(OnPackage, None, "kubebuilder:skip")
	add(OnPackage|OnType, Bool, "kubebuilder:object:generate")
	add(OnType, Bool, "kubebuilder:object:root")
	add(OnPackage|OnType, Raw, "k8s:deepcopy-gen")
	add(OnType, String, "k8s:deepcopy-gen:interfaces")

	// Schema validations, on fields, types and (as items:) on the elements of lists.
	schema := func(kind Kind, names ...string) {
		for _, n := range names {
			add(OnField|OnType, kind, v+n, v+"items:"+n)
		}
	}
	schema(Number, "Maximum", "Minimum", "MultipleOf")
	schema(Bool, "ExclusiveMaximum", "ExclusiveMinimum", "UniqueItems")
	schema(Int, "MinProperties", "MaxProperties", "MaxLength", "MinLength", "MaxItems", "MinItems")
	schema(String, "Pattern", "Format", "Type")
	schema(List, "Enum")
	schema(None, "XPreserveUnknownFields", "XEmbeddedResource", "XIntOrString")
	rule := []Arg{{"rule", String, false}, {"message", String, true}, {"messageExpression", String, true}, {"reason", String, true},
		{"fieldPath", String, true}, {"optionalOldSelf", Bool, true}}
	for _, n := range []string{v + "XValidation", v + "items:XValidation"} {
		defs = append(defs, Definition{Name: n, On: OnField | OnType, Args: rule})
	}
	add(OnType, Strings, v+"AtMostOneOf", v+"ExactlyOneOf", v+"AtLeastOneOf")
	add(OnField|OnPackage, None, v+"Required", v+"Optional")
	add(OnField, None, v+"EmbeddedResource", v+"Schemaless")
	add(OnField|OnType, None, "kubebuilder:pruning:PreserveUnknownFields")
	add(OnField, None, "required", "optional", "nullable", "k8s:required", "k8s:optional", "k8s:immutable")
	add(OnField, Any, "kubebuilder:default", "kubebuilder:example")
	add(OnField, JSON, "default")
	add(OnField|OnType, Any, "kubebuilder:title")
	add(OnField, Int, "k8s:maxItems")
	add(OnField, Number, "k8s:minimum", "k8s:maximum")
	add(OnType, None, "k8s:enum")
	defs = append(defs, Definition{Name: "kubebuilder:externalDocs", On: OnField | OnType,
		Args: []Arg{{"url", String, false}, {"description", String, true}}})

	// How lists, maps and structs merge.
	add(OnField|OnType, String, "listType", "listMapKey", "mapType", "structType", "k8s:listType", "k8s:listMapKey")

	// The definition around the schema.
	add(OnType, None, "kubebuilder:subresource:status", "kubebuilder:storageversion", "kubebuilder:skipversion", "kubebuilder:unservedversion")
	defs = append(defs,
		Definition{Name: "kubebuilder:subresource:scale", On: OnType,
			Args: []Arg{{"specpath", String, false}, {"statuspath", String, false}, {"selectorpath", String, true}}},
		Definition{Name: "kubebuilder:printcolumn", On: OnType, Args: []Arg{{"name", String, false}, {"type", String, false},
			{"JSONPath", String, false}, {"description", String, true}, {"format", String, true}, {"priority", Int, true}}},
		Definition{Name: "kubebuilder:resource", On: OnType, Args: []Arg{{"path", String, true}, {"shortName", Strings, true},
			{"categories", Strings, true}, {"singular", String, true}, {"scope", String, true}}},
		Definition{Name: "kubebuilder:deprecatedversion", On: OnType, Args: []Arg{{"warning", String, true}}},
		Definition{Name: "kubebuilder:metadata", On: OnType, Args: []Arg{{"annotations", Strings, true}, {"labels", Strings, true}}},
		Definition{Name: "kubebuilder:selectablefield", On: OnType, Args: []Arg{{"JSONPath", String, false}}},
		Definition{Name: "kubebuilder:rbac", On: OnPackage, Args: []Arg{{"groups", Strings, true}, {"resources", Strings, true},
			{"resourceNames", Strings, true}, {"verbs", Strings, false}, {"urls", Strings, true}, {"namespace", String, true}, {"roleName", String, true}}},
	)

	// Understood, without effect on what is generated so far.
	inert("kubebuilder:webhook", "kubebuilder:webhook:*", "kubebuilder:webhookconfiguration:*", "kubebuilder:ac:*", "kubebuilder:scaffold:*",
		"kubebuilder:docs-gen:*", "kubebuilder:conversion:*", "genclient", "genclient:*", "groupGoName", "resourceName",
		"k8s:deepcopy-gen:nonpointer-interfaces", "k8s:openapi-gen", "k8s:openapi-gen:*", "k8s:openapi-model-package", "k8s:defaulter-gen",
		"k8s:defaulter-gen:*", "k8s:defaulter-gen-input", "k8s:conversion-gen", "k8s:conversion-gen:*", "k8s:conversion-gen-external-types",
		"k8s:conversion-fn", "k8s:protobuf-gen", "k8s:register-gen", "k8s:prerelease-lifecycle-gen", "k8s:prerelease-lifecycle-gen:*",
		"k8s:validation-gen", "k8s:validation-gen:*", "k8s:validation-gen-*", "k8s:maxLength", "k8s:minLength", "k8s:minItems", "k8s:format",
		"k8s:unionMember", "k8s:unionDiscriminator", "k8s:zeroOrOneOfMember", "k8s:neq", "k8s:eachVal", "k8s:eachKey", "k8s:subfield",
		"k8s:item", "k8s:ifEnabled", "k8s:ifDisabled", "k8s:forbidden", "k8s:update", "k8s:opaqueType", "k8s:unique", "k8s:customUnique",
		"k8s:isSubresource", "k8s:supportsSubresource", "k8s:alpha", "k8s:beta", "k8s:maxProperties", "k8s:minProperties",
		"enum", "featureGate", "patchMergeKey", "patchStrategy", "protobuf", "protobuf.*", "union", "unionDiscriminator", "build")
	return NewRegistry(defs, "operator-sdk:", "openshift:", "controllertools:", "go:", "marker:", "lint:")
}
