package marker

// Family is a group of markers that are about one thing. The reference has a section for each.
type Family struct {
	Name        string
	Doc         string
	Definitions []Definition
}

// Standard is the registry of the markers of controller-gen, of Kubernetes' own generators, and of Kelson.
func Standard() *Registry {
	var defs []Definition
	for _, f := range Families() {
		defs = append(defs, f.Definitions...)
	}
	return NewRegistry(defs, Foreign()...)
}

// Foreign are the beginnings of the names of other tools' markers.
func Foreign() []string {
	return []string{"operator-sdk:", "openshift:", "controllertools:", "go:", "marker:", "lint:", "gengo:", "gencrdrefdocs:"}
}

// Families are the standard definitions, in the order of the reference.
func Families() []Family {
	return []Family{
		groupFamily(), definitionFamily(), validationFamily(), fieldFamily(), topologyFamily(), objectFamily(), roleFamily(), webhookFamily(),
		clientFamily(), applyFamily(), registrationFamily(), defaultFamily(), conversionFamily(), openAPIFamily(), declarativeFamily(),
		lifecycleFamily(), elsewhereFamily(),
	}
}

// groupFamily says what a package is.
func groupFamily() Family {
	return Family{"Groups and generators", "What a package is, and what is generated for it.", []Definition{
		{Name: "groupName", On: OnPackage, Value: String, Optional: true, Example: "batch.example.com",
			Doc: "The package holds a version of this API group. Empty for the core group."},
		{Name: "versionName", On: OnPackage, Value: String, Example: "v1beta1",
			Doc: "The version, where it is not the package's name."},
		{Name: "groupGoName", On: OnPackage, Value: String, Example: "Batch",
			Doc: "What the group is called in generated clients, where the group's first part is not a good name."},
		{Name: "kubebuilder:skip", On: OnPackage, Doc: "No definitions are made of the package's types."},
		{Name: "kelson:generate", On: OnPackage, Value: Strings, Example: "client;lister;informer",
			Doc: "What `kelson generate` makes for the package beside object, crd, rbac and webhook: see the generators."},
		{Name: "kelson:crd", On: OnPackage, Example: "generateEmbeddedObjectMeta=true",
			Args: []Arg{{"generateEmbeddedObjectMeta", Bool, true}, {"allowDangerousTypes", Bool, true}, {"maxDescLen", Int, true}},
			Doc: "What definitions of the whole project are made with, as options of the same names of controller-gen's crd generator say: " +
				"metadata inside of objects has a schema; fields may be floats; descriptions are that long at most, 0 for none."},
		{Name: "kelson:output", On: OnPackage, Value: String, Example: "pkg/client",
			Doc: "The directory, from the project's root, for clients, listers, informers and apply configurations; `pkg/generated` if not said."},
	}}
}

// definitionFamily is what a CustomResourceDefinition says beside its schema.
func definitionFamily() Family {
	return Family{"Definitions", "What a CustomResourceDefinition says beside its schema. They stand on a kind's type.", []Definition{
		{Name: "kubebuilder:resource", On: OnType, Example: "scope=Cluster,shortName=cj;cron",
			Args: []Arg{{"path", String, true}, {"shortName", Strings, true}, {"categories", Strings, true}, {"singular", String, true},
				{"scope", String, true}},
			Doc: "Names and scope: path is the plural, scope is Namespaced (if not said) or Cluster."},
		{Name: "kubebuilder:subresource:status", On: OnType, Doc: "The kind has the status subresource."},
		{Name: "kubebuilder:subresource:scale", On: OnType, Example: "specpath=.spec.replicas,statuspath=.status.replicas",
			Args: []Arg{{"specpath", String, false}, {"statuspath", String, false}, {"selectorpath", String, true}},
			Doc:  "The kind has the scale subresource, with its numbers at these paths."},
		{Name: "kubebuilder:printcolumn", On: OnType, Example: "name=Phase,type=string,JSONPath=`.status.phase`",
			Args: []Arg{{"name", String, false}, {"type", String, false}, {"JSONPath", String, false}, {"description", String, true},
				{"format", String, true}, {"priority", Int, true}},
			Doc: "A column of `kubectl get`. With priority above 0 it is shown with `-o wide` only."},
		{Name: "kubebuilder:storageversion", On: OnType, Doc: "Objects are stored in this version. One version of a kind has it."},
		{Name: "kubebuilder:unservedversion", On: OnType, Doc: "The version is not served."},
		{Name: "kubebuilder:skipversion", On: OnType, Doc: "The definition does not have this version."},
		{Name: "kubebuilder:deprecatedversion", On: OnType, Args: []Arg{{"warning", String, true}}, Example: "warning=\"use v2\"",
			Doc: "Whoever uses the version is warned."},
		{Name: "kubebuilder:metadata", On: OnType, Args: []Arg{{"annotations", Strings, true}, {"labels", Strings, true}},
			Example: "labels=\"a=b\"", Doc: "Labels and annotations of the definition itself."},
		{Name: "kubebuilder:selectablefield", On: OnType, Args: []Arg{{"JSONPath", String, false}}, Example: "JSONPath=`.spec.color`",
			Doc: "Field selectors may use this field."},
	}}
}

// validationFamily are the rules of schemas.
func validationFamily() Family {
	const v = "kubebuilder:validation:"
	f := Family{Name: "Validation", Doc: "Rules of the schema. On a field they are the field's, on a type those of every field of the type; " +
		"those with `items:` before the name are rules for the elements of a list."}
	rule := []Arg{{"rule", String, false}, {"message", String, true}, {"messageExpression", String, true}, {"reason", String, true},
		{"fieldPath", String, true}, {"optionalOldSelf", Bool, true}}
	for _, d := range []Definition{
		{Name: "Maximum", Value: Number, Doc: "The greatest number."},
		{Name: "Minimum", Value: Number, Doc: "The least number."},
		{Name: "ExclusiveMaximum", Value: Bool, Doc: "The maximum itself is not allowed."},
		{Name: "ExclusiveMinimum", Value: Bool, Doc: "The minimum itself is not allowed."},
		{Name: "MultipleOf", Value: Number, Doc: "The number is a multiple of this."},
		{Name: "MaxLength", Value: Int, Doc: "The most characters of a string."},
		{Name: "MinLength", Value: Int, Doc: "The fewest characters of a string."},
		{Name: "Pattern", Value: String, Example: "`^[a-z]+$`", Doc: "A regular expression that the string matches."},
		{Name: "Format", Value: String, Example: "date-time", Doc: "A format of OpenAPI."},
		{Name: "Enum", Value: List, Example: "Allow;Forbid;Replace", Doc: "The values there are."},
		{Name: "MaxItems", Value: Int, Doc: "The most elements of a list."},
		{Name: "MinItems", Value: Int, Doc: "The fewest elements of a list."},
		{Name: "UniqueItems", Value: Bool, Doc: "No two elements are equal. Servers refuse it; use `+listType=set`."},
		{Name: "MaxProperties", Value: Int, Doc: "The most members of an object."},
		{Name: "MinProperties", Value: Int, Doc: "The fewest members of an object."},
		{Name: "Type", Value: String, Example: "string", Doc: "The type in the schema, where Go's is another."},
		{Name: "XPreserveUnknownFields", Doc: "Members that the schema does not know are kept."},
		{Name: "XEmbeddedResource", Doc: "The value is an object with apiVersion, kind and metadata."},
		{Name: "XIntOrString", Doc: "The value is an integer or a string."},
		{Name: "XValidation", Args: rule, Example: "rule=\"self.min <= self.max\",message=\"min is above max\"", Doc: "A rule in CEL."},
	} {
		item := d
		d.Name, item.Name = v+d.Name, v+"items:"+d.Name
		d.On, item.On = OnField|OnType, OnField|OnType
		item.Doc = "The same for each element of a list."
		f.Definitions = append(f.Definitions, d, item)
	}
	f.Definitions = append(f.Definitions,
		Definition{Name: v + "AtMostOneOf", On: OnType, Value: Strings, Example: "a;b", Doc: "At most one of these fields is set."},
		Definition{Name: v + "ExactlyOneOf", On: OnType, Value: Strings, Example: "a;b", Doc: "Exactly one of these fields is set."},
		Definition{Name: v + "AtLeastOneOf", On: OnType, Value: Strings, Example: "a;b", Doc: "At least one of these fields is set."},
		Definition{Name: v + "Required", On: OnField | OnPackage, Doc: "The field must be there; on a package: all are that do not say otherwise."},
		Definition{Name: v + "Optional", On: OnField | OnPackage, Doc: "The field may be left out; on a package: all that do not say otherwise."},
		Definition{Name: v + "EmbeddedResource", On: OnField, Doc: "As XEmbeddedResource."},
		Definition{Name: v + "Schemaless", On: OnField, Doc: "The field's type gives no schema; only its markers do."},
	)
	return f
}

// fieldFamily is what else a schema says of fields.
func fieldFamily() Family {
	return Family{"Fields", "What else a schema says.", []Definition{
		{Name: "required", On: OnField, Doc: "The field must be there."},
		{Name: "optional", On: OnField, Doc: "The field may be left out."},
		{Name: "nullable", On: OnField, Doc: "The value may be null."},
		{Name: "default", On: OnField, Value: JSON, Example: "\"Allow\"",
			Doc: "The value where there is none, as JSON: in schemas, in OpenAPI, and in generated defaulting functions."},
		{Name: "kubebuilder:default", On: OnField, Value: Any, Example: "Allow", Doc: "The value where there is none, in schemas."},
		{Name: "kubebuilder:example", On: OnField, Value: Any, Doc: "An example of a value."},
		{Name: "kubebuilder:title", On: OnField | OnType, Value: Any, Doc: "The schema's title."},
		{Name: "kubebuilder:externalDocs", On: OnField | OnType, Args: []Arg{{"url", String, false}, {"description", String, true}},
			Doc: "Where more is written."},
		{Name: "kubebuilder:pruning:PreserveUnknownFields", On: OnField | OnType, Doc: "Members that the schema does not know are kept."},
		{Name: "enum", On: OnType, Doc: "The type's constants are all its values, in OpenAPI."},
		{Name: "featureGate", On: OnField | OnType, Value: Raw, Inert: true, Doc: "The gate that the field stands behind. For readers."},
	}}
}

// topologyFamily is how values merge.
func topologyFamily() Family {
	return Family{"Merging", "How server-side apply and patches merge lists, maps and structs.", []Definition{
		{Name: "listType", On: OnField | OnType, Value: String, Example: "map", Doc: "atomic, set or map."},
		{Name: "listMapKey", On: OnField | OnType, Value: String, Example: "name", Doc: "A field that tells elements of a map list apart; may stand several times."},
		{Name: "mapType", On: OnField | OnType, Value: String, Example: "atomic", Doc: "atomic or granular."},
		{Name: "structType", On: OnField | OnType, Value: String, Example: "atomic", Doc: "atomic or granular."},
		{Name: "patchStrategy", On: OnField, Value: String, Example: "merge", Doc: "How a strategic merge patch treats the field, in OpenAPI."},
		{Name: "patchMergeKey", On: OnField, Value: String, Example: "name", Doc: "The key by which a strategic merge patch merges a list, in OpenAPI."},
	}}
}
