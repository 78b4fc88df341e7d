package marker

// Family is a group of related markers. The reference has a section for each.
type Family struct {
	Name        string
	Doc         string
	Definitions []Definition
}

// Standard returns a registry of the markers of controller-gen, Kubernetes' generators and Kelson.
func Standard() *Registry {
	var defs []Definition
	for _, f := range Families() {
		defs = append(defs, f.Definitions...)
	}
	return NewRegistry(defs, Foreign()...)
}

// Foreign returns the name prefixes of markers that belong to other tools. They are ignored.
func Foreign() []string {
	return []string{"operator-sdk:", "openshift:", "controllertools:", "go:", "marker:", "lint:", "gengo:",
		"gencrdrefdocs:"}
}

// Families returns the definitions of the standard markers, in the order of the reference.
func Families() []Family {
	return []Family{
		groupFamily(), definitionFamily(), validationFamily(), fieldFamily(), topologyFamily(), objectFamily(),
		roleFamily(), webhookFamily(),
		clientFamily(), applyFamily(), registrationFamily(), defaultFamily(), conversionFamily(), openAPIFamily(),
		declarativeFamily(),
		lifecycleFamily(), elsewhereFamily(),
	}
}

func groupFamily() Family {
	return Family{"Groups and generators", "The API group of a package, and what is generated for it.", []Definition{
		{Name: "groupName", On: OnPackage, Value: String, Optional: true, Example: "batch.example.com",
			Doc: "The package declares a version of this API group. Empty for the core group."},
		{Name: "versionName", On: OnPackage, Value: String, Example: "v1beta1",
			Doc: "The version, if it is not the name of the package."},
		{Name: "groupGoName", On: OnPackage, Value: String, Example: "Batch",
			Doc: "The name of the group in generated clients, if it is not the first part of the group."},
		{Name: "kubebuilder:skip", On: OnPackage, Doc: "No definitions are generated for the package's types."},
		{Name: "kelson:generate", On: OnPackage, Value: Strings, Example: "client;lister;informer",
			Doc: "The generators that `kelson generate` runs for the package in addition to object, crd, rbac and webhook."},
		{Name: "kelson:crd", On: OnPackage, Example: "generateEmbeddedObjectMeta=true",
			Args: []Arg{{"generateEmbeddedObjectMeta", Bool, true}, {"allowDangerousTypes", Bool, true},
				{"maxDescLen", Int, true}, {"generate", Bool, true}},
			Doc: "Options for the definitions of the whole project, named as in controller-gen's crd generator: " +
				"a schema for metadata inside objects; float fields; the maximum length of descriptions, 0 for none. " +
				"`generate=false`: the kinds of this package are not custom resources, since a custom API server serves them."},
		{Name: "kelson:output", On: OnPackage, Value: String, Example: "pkg/client",
			Doc: "The directory of clients, listers, informers and apply configurations, relative to the project's root. The default is `pkg/generated`."},
	}}
}

func definitionFamily() Family {
	return Family{"Definitions", "Fields of a CustomResourceDefinition other than its schema. These markers belong on the type of a kind.", []Definition{
		{Name: "kubebuilder:resource", On: OnType, Example: "scope=Cluster,shortName=cj;cron",
			Args: []Arg{{"path", String, true}, {"shortName", Strings, true}, {"categories", Strings, true},
				{"singular", String, true},
				{"scope", String, true}},
			Doc: "Names and scope: path is the plural, scope is Namespaced (the default) or Cluster."},
		{Name: "kubebuilder:subresource:status", On: OnType, Doc: "The kind has the status subresource."},
		{Name: "kubebuilder:subresource:scale", On: OnType,
			Example: "specpath=.spec.replicas,statuspath=.status.replicas",
			Args:    []Arg{{"specpath", String, false}, {"statuspath", String, false}, {"selectorpath", String, true}},
			Doc:     "The kind has the scale subresource; the paths name the fields with its values."},
		{Name: "kubebuilder:printcolumn", On: OnType, Example: "name=Phase,type=string,JSONPath=`.status.phase`",
			Args: []Arg{{"name", String, false}, {"type", String, false}, {"JSONPath", String, false},
				{"description", String, true},
				{"format", String, true}, {"priority", Int, true}},
			Doc: "A column of `kubectl get`. Columns with a priority above 0 appear only with `-o wide`."},
		{Name: "kubebuilder:storageversion", On: OnType,
			Doc: "Objects are stored in this version. Exactly one version of a kind must have it."},
		{Name: "kubebuilder:unservedversion", On: OnType, Doc: "The version is not served."},
		{Name: "kubebuilder:skipversion", On: OnType, Doc: "The version is omitted from the definition."},
		{Name: "kubebuilder:deprecatedversion", On: OnType, Args: []Arg{{"warning", String, true}},
			Example: "warning=\"use v2\"",
			Doc:     "Clients that use the version get a warning."},
		{Name: "kubebuilder:metadata", On: OnType,
			Args:    []Arg{{"annotations", Strings, true}, {"labels", Strings, true}},
			Example: "labels=\"a=b\"", Doc: "Labels and annotations of the definition itself."},
		{Name: "kubebuilder:selectablefield", On: OnType, Args: []Arg{{"JSONPath", String, false}},
			Example: "JSONPath=`.spec.color`",
			Doc:     "Field selectors may use this field."},
	}}
}

func validationFamily() Family {
	const v = "kubebuilder:validation:"
	f := Family{Name: "Validation", Doc: "Rules of the schema. On a field they apply to the field, on a type to every field of that type. " +
		"Names with `items:` apply to the elements of a list."}
	rule := []Arg{{"rule", String, false}, {"message", String, true}, {"messageExpression", String, true},
		{"reason", String, true},
		{"fieldPath", String, true}, {"optionalOldSelf", Bool, true}}
	for _, d := range []Definition{
		{Name: "Maximum", Value: Number, Doc: "The maximum of a number."},
		{Name: "Minimum", Value: Number, Doc: "The minimum of a number."},
		{Name: "ExclusiveMaximum", Value: Bool, Doc: "The maximum itself is not allowed."},
		{Name: "ExclusiveMinimum", Value: Bool, Doc: "The minimum itself is not allowed."},
		{Name: "MultipleOf", Value: Number, Doc: "The number must be a multiple of this value."},
		{Name: "MaxLength", Value: Int, Doc: "The maximum length of a string, in characters."},
		{Name: "MinLength", Value: Int, Doc: "The minimum length of a string, in characters."},
		{Name: "Pattern", Value: String, Example: "`^[a-z]+$`",
			Doc: "A regular expression that the string must match."},
		{Name: "Format", Value: String, Example: "date-time", Doc: "An OpenAPI format."},
		{Name: "Enum", Value: List, Example: "Allow;Forbid;Replace", Doc: "The allowed values."},
		{Name: "MaxItems", Value: Int, Doc: "The maximum number of elements."},
		{Name: "MinItems", Value: Int, Doc: "The minimum number of elements."},
		{Name: "UniqueItems", Value: Bool, Doc: "Elements must be unique. Servers reject it; use `+listType=set`."},
		{Name: "MaxProperties", Value: Int, Doc: "The maximum number of properties of an object."},
		{Name: "MinProperties", Value: Int, Doc: "The minimum number of properties of an object."},
		{Name: "Type", Value: String, Example: "string",
			Doc: "The type in the schema, if it differs from the Go type."},
		{Name: "XPreserveUnknownFields", Doc: "Unknown fields are kept instead of pruned."},
		{Name: "XEmbeddedResource", Doc: "The value is an object with apiVersion, kind and metadata."},
		{Name: "XIntOrString", Doc: "The value is an integer or a string."},
		{Name: "XValidation", Args: rule, Example: "rule=\"self.min <= self.max\",message=\"min is above max\"",
			Doc: "A CEL rule."},
	} {
		item := d
		d.Name, item.Name = v+d.Name, v+"items:"+d.Name
		d.On, item.On = OnField|OnType, OnField|OnType
		item.Doc = "The same for each element of a list."
		f.Definitions = append(f.Definitions, d, item)
	}
	f.Definitions = append(f.Definitions,
		Definition{Name: v + "AtMostOneOf", On: OnType, Value: Strings, Example: "a;b",
			Doc: "At most one of these fields is set."},
		Definition{Name: v + "ExactlyOneOf", On: OnType, Value: Strings, Example: "a;b",
			Doc: "Exactly one of these fields is set."},
		Definition{Name: v + "AtLeastOneOf", On: OnType, Value: Strings, Example: "a;b",
			Doc: "At least one of these fields is set."},
		Definition{Name: v + "Required", On: OnField | OnPackage,
			Doc: "The field is required. On a package: fields are required unless marked otherwise."},
		Definition{Name: v + "Optional", On: OnField | OnPackage,
			Doc: "The field is optional. On a package: fields are optional unless marked otherwise."},
		Definition{Name: v + "EmbeddedResource", On: OnField, Doc: "The same as XEmbeddedResource."},
		Definition{Name: v + "Schemaless", On: OnField,
			Doc: "The schema comes from the markers only, not from the type of the field."},
	)
	return f
}

func fieldFamily() Family {
	return Family{"Fields", "Other properties of fields.", []Definition{
		{Name: "required", On: OnField, Doc: "The field is required."},
		{Name: "optional", On: OnField, Doc: "The field is optional."},
		{Name: "nullable", On: OnField, Doc: "The value may be null."},
		{Name: "default", On: OnField, Value: JSON, Example: "\"Allow\"",
			Doc: "The default value, as JSON: in schemas, in OpenAPI and in generated defaulting functions."},
		{Name: "kubebuilder:default", On: OnField, Value: Any, Example: "Allow", Doc: "The default value, in schemas."},
		{Name: "kubebuilder:example", On: OnField, Value: Any, Doc: "An example of a value."},
		{Name: "kubebuilder:title", On: OnField | OnType, Value: Any, Doc: "The schema's title."},
		{Name: "kubebuilder:externalDocs", On: OnField | OnType,
			Args: []Arg{{"url", String, false}, {"description", String, true}},
			Doc:  "External documentation."},
		{Name: "kubebuilder:pruning:PreserveUnknownFields", On: OnField | OnType,
			Doc: "Unknown fields are kept instead of pruned."},
		{Name: "enum", On: OnType, Doc: "The constants of the type are its allowed values, in OpenAPI."},
		{Name: "oneOf", On: OnField, Value: Raw, Inert: true, Example: "NodeSelection",
			Doc: "Exactly one field with this name is set. Documentation only; `+k8s:unionMember` is a rule."},
		{Name: "zeroOrOneOf", On: OnField, Value: Raw, Inert: true, Example: "ResourceSliceType",
			Doc: "At most one field with this name is set. Documentation only; `+k8s:zeroOrOneOfMember` is a rule."},
		{Name: "k8s:deprecated", On: Anywhere, Value: Raw, Inert: true, Example: "configMapRef,protobuf=1",
			Doc: "A field that was removed, with the number that it had in protobuf. Documentation only."},
		{Name: "featureGate", On: OnField | OnType, Value: Raw, Inert: true,
			Doc: "The feature gate of the field. Documentation only."},
	}}
}

func topologyFamily() Family {
	return Family{"Merging", "How server-side apply and patches merge lists, maps and structs.", []Definition{
		{Name: "listType", On: OnField | OnType, Value: String, Example: "map", Doc: "atomic, set or map."},
		{Name: "listMapKey", On: OnField | OnType, Value: String, Example: "name",
			Doc: "A key field of a map list. May be repeated."},
		{Name: "mapType", On: OnField | OnType, Value: String, Example: "atomic", Doc: "atomic or granular."},
		{Name: "structType", On: OnField | OnType, Value: String, Example: "atomic", Doc: "atomic or granular."},
		{Name: "patchStrategy", On: OnField, Value: Raw, Example: "merge,retainKeys",
			Doc: "How a strategic merge patch treats the field, in OpenAPI: merge, replace, retainKeys, or two of them."},
		{Name: "patchMergeKey", On: OnField, Value: String, Example: "name",
			Doc: "The key by which a strategic merge patch merges a list, in OpenAPI."},
	}}
}
