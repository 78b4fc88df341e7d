package main

import (
	"bytes"
	"fmt"

	"kelson.dev/toolchain"
)

func generators() []byte {
	var b bytes.Buffer
	b.WriteString(generated + `# Generators

` + "```" + `
kelson generate [GENERATOR…] [DIR]     generate code and manifests from Go types
kelson generate --check                for CI: fail and list the files that are out of date
kelson generate --watch                generate again after every edit
kelson generate crd paths=./api/...    with arguments of controller-gen: paths, options and outputs
` + "```" + `

[Projects that Kelson did not create](../guides/existing-projects.md) generate what their Makefile and scripts pass to controller-gen.

The generators read the packages below DIR once and share one model of the API. They run no other program and write only files whose content
changes. If there are errors, they write nothing and report all errors with their positions.

| generator | writes | | runs |
|---|---|---|---|
`)
	for _, g := range toolchain.Generators() {
		runs := "on request"
		switch {
		case g.Default:
			runs = "always"
		case g.ForServers():
			runs = "on request, and for custom API servers"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", g.Name, g.Output, g.Doc, runs)
	}
	b.WriteString(`
The column *runs* says when a generator runs. A package requests further generators in its doc.go. If the command line names generators, exactly these run:

` + "```go" + `
// +groupName=shop.example.com
// +kelson:generate=register;client;lister;informer;applyconfiguration
// +kelson:output=pkg/client
package v1
` + "```" + `

The generators remove the definitions of kinds that no longer exist, and the generated code of packages that no longer need it; ` + "`--check`" + ` lists these files too. They keep
definitions that were written or changed by hand, or that belong to another project's groups.

Rules come from ` + "`+kubebuilder:rbac`" + ` markers. A reconciler with a method ` + "`Finalize`" + ` gets its finalizer by a patch of the object, so ` + "`rbac`" + ` also grants ` + "`patch`" + ` on
the resource of its kind, in the role that lets the reconciler watch it.

OUTPUT is ` + "`pkg/generated`" + ` below DIR unless ` + "`+kelson:output`" + ` sets another directory. If the project has ` + "`config/crd/bases`" + `, as in kubebuilder's layout, definitions
are written there. Generated Go files begin with the text of ` + "`hack/boilerplate.go.txt`" + `. For the markers, see [the markers reference](markers.md).

## Definitions

The definitions equal those of controller-gen, field by field (` + "`make generators`" + ` compares them on Cluster API, cert-manager, External Secrets and Argo Rollouts, and
` + "`make operators`" + ` compares [public operators' committed files](../internals/operators.md)). A marker in a dependency that does not fit its field has no effect.
The differences, with reasons:

| | controller-gen | Kelson | because |
|---|---|---|---|
| annotation controller-gen.kubebuilder.io/version | its version | none in new files; in existing files it stays | a file should not change because a tool did |
| unknown or malformed marker | ignored | an error; a warning with ` + "`--lenient`" + ` and in projects that Kelson did not create | it is probably a mistake: in External Secrets, ` + "`+Optional`" + ` and ` + "`+required - text`" + ` have no effect on their fields |
| generic types, unnamed structs | errors | schemas | they are valid Go |
| a type that contains itself | an empty schema, which the server rejects | an error at the type | a structural schema cannot express it |
| two packages declare one version of a kind | both are written | an error | the server rejects it |
| no storage version, or several | written | an error | the server rejects it |
| specpath or statuspath outside spec and status | written | an error | the server rejects it |
| ` + "`+k8s:minimum`, `maximum`, `maxItems`" + ` on a type | ignored | applied | Kubernetes' own validation applies them there |

### Metadata inside objects

A pod template contains metadata. By default, as controller-gen does, ` + "`crd`" + ` generates an object without fields for it, so the server prunes the labels that users set
there. ` + "`+kelson:crd:generateEmbeddedObjectMeta=true`" + ` in a package's doc.go (or ` + "`--embedded-object-meta`" + `) generates a schema with name, namespace, labels, annotations
and finalizers. The marker's other arguments, ` + "`allowDangerousTypes` and `maxDescLen`" + `, mean the same as in controller-gen. They apply to every command that generates.

### Size

Descriptions are most of a definition. ` + "`--max-description N`" + ` limits each to N bytes, cut at the end of a sentence if possible, as ` + "`maxDescLen`" + ` does; a negative N omits
all of them. If a definition exceeds 1 MiB, near etcd's limit, all its descriptions are shortened to the same length, with a warning.
` + "`--max-size 262144`" + ` lowers the limit to the maximum of kubectl's client-side apply.

## Code

The generated code has the shape of Kubernetes' generators: ` + "`clientset.ShopV1().Pizzas(ns).Get(…)`" + `, ` + "`factory.Shop().V1().Pizzas().Lister()`" + `,
` + "`SetDefaults_PizzaSpec`" + ` and ` + "`Convert_v1_Pizza_To_v2_Pizza`" + ` work in the same way. The differences, with reasons:

| | Kubernetes' generators | Kelson | because |
|---|---|---|---|
| rate limits of clients | 5 requests a second unless configured | none unless configured | servers limit requests, with priority and fairness |
| informers | client-go's | those of kelson.dev/operator | one watch per kind, smaller caches; informers requested after Start start immediately |
| fake clientset | client-go's tracker | the same, with informers and discovery | for existing tests; in new tests, an in-process control plane starts in milliseconds and behaves like a server |
| packages of a group | called as the folder of its versions | called as the first part of the group's name | folders such as ` + "`apis`" + ` do not name the group |
| expansion interfaces | empty interfaces to add methods to | none | use functions, or ` + "`+genclient:method`" + ` |
| Extract functions of apply configurations | only with an OpenAPI document of the types | always, from the schemas of the definitions | servers track field ownership by these schemas |
| apply configurations of types of k8s.io/api | the types themselves, unless arguments name others | those of client-go | only fields that are set are applied |
| fields of named lists and maps in apply configurations | pointers to the named type | lists and maps of apply configurations, to which With functions add | as for lists and maps without names |
| constructors of kinds without ` + "`+genclient`" + ` | without arguments | with the name and namespace | every kind needs them; controller-gen does the same |
| GroupVersion in the registration | a metav1.GroupVersion | a schema.GroupVersion | it has the methods that code needs, and kubebuilder's projects have it |
| markers of a type above a blank line | ignored by some generators | apply | authors mean them |
| conversion that does not match | a comment in the code, which does not compile | an error at the field, with the name of the function to write | the error is where you fix it |
| round-trip tests of conversions | by hand | generated | they find lost fields before users do |
| ConvertTo, ConvertFrom, Hub | by hand | generated | they only call existing functions |
| OpenAPI of types of other packages | if named as inputs | every type that is referenced | references must resolve |
| generic types | errors | expanded where they are used | they are valid Go |

### Validation

` + "`validation`" + ` writes ` + "`Validate_PizzaSpec(ctx, op, fldPath, obj, oldObj)`" + ` for each type with ` + "`+k8s:`" + ` rules, in itself or in a type that it uses, and the method
` + "`ValidateDeclaratively`" + ` for kinds. Tests compare the errors for random objects with those of validation-gen: on its own test packages and on all
validated types of Kubernetes, they are equal. The differences, with reasons:

| | validation-gen | Kelson | because |
|---|---|---|---|
| a nil pointer to a struct that no marker requires | the function panics | not validated | clients can send it |
| fields of an inline struct, if the path is nil | below the name of the Go type | at their JSON path | clients do not know Go types |
| types of other modules without validation functions | an error | an error only if they have rules | without rules, nothing is ignored |
| unsupported types, such as lists of lists and arrays | errors | errors only if they have rules | without rules, nothing is ignored |
| level of a marker inside another one, such as +k8s:eachVal | lost if the rule has no argument | kept | ` + "`+k8s:eachVal=+k8s:alpha=+k8s:format=…`" + ` must not reject |
| unions and modes under +k8s:ifEnabled and levels | those of the first member apply to all unions of the struct | each union has its own | one union must not disable another |
| several rules for a mode | all run | rules such as +k8s:required end the validation if they fail | as for other fields |
| registration in a scheme | always | none: the method is enough | the library finds methods |
`)
	return b.Bytes()
}
