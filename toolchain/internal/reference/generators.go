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
kelson generate [GENERATOR…] [DIR]     what a project needs, from its Go types
kelson generate --check                for CI: fails, naming the files, if anything is stale
kelson generate --watch                again after every edit
` + "```" + `

They read the packages below DIR once, make one model of the API, and write what is asked for. No other program is called, files are written only if
their content changes, and if anything is wrong nothing is written: every error is told, with its place.

| generator | writes | | runs |
|---|---|---|---|
`)
	for _, g := range toolchain.Generators() {
		runs := "on request"
		if g.Default {
			runs = "always"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", g.Name, g.Output, g.Doc, runs)
	}
	b.WriteString(`
What runs on request is asked for in a package's doc.go, or by name on the command line, where names stand for nothing but themselves:

` + "```go" + `
// +groupName=shop.example.com
// +kelson:generate=register;client;lister;informer;applyconfiguration
// +kelson:output=pkg/client
package v1
` + "```" + `

The definition of a kind that is no longer there is removed, and so is generated code of a package in which nothing is left to generate it for; ` + "`--check`" + ` names these too. Definitions
that were written or changed by hand, or are of groups that are not the project's, stay.

OUTPUT is ` + "`pkg/generated`" + ` below DIR unless ` + "`+kelson:output`" + ` says otherwise. A project that has ` + "`config/crd/bases`" + ` gets its definitions there, as kubebuilder
lays it out. The text of ` + "`hack/boilerplate.go.txt`" + ` stands above generated Go files. The markers are in [their own reference](markers.md).

## Definitions

They are those of controller-gen, field by field (` + "`make generators`" + ` compares them on Cluster API, cert-manager, External Secrets and Argo Rollouts). What is
different, and why:

| | controller-gen | Kelson | because |
|---|---|---|---|
| annotation controller-gen.kubebuilder.io/version | there | not there | a file should not change because a tool did |
| unknown or malformed marker | passed over | an error; with ` + "`--lenient`" + ` a warning | it was meant to say something: in External Secrets, ` + "`+Optional`" + ` and ` + "`+required - text`" + ` stand at fields that they do not affect |
| generic types, unnamed structs | errors | schemas | they are Go |
| a type that contains itself | an empty schema at the end, which the server refuses | an error at the type | no structural schema expresses it |
| two packages declare one version of a kind | both are written | an error | the server refuses it |
| no, or several storage versions | written | an error | the server refuses it |
| specpath, statuspath outside of spec and status | written | an error | the server refuses it |
| ` + "`+k8s:minimum`, `maximum`, `maxItems`" + ` on a type | passed over | taken | Kubernetes' own validation takes them there |

### Metadata inside of objects

A pod template has metadata of its own. As controller-gen by default, ` + "`crd`" + ` makes an object without fields of it, and a server drops the labels that users write
there. ` + "`+kelson:crd:generateEmbeddedObjectMeta=true`" + ` in a package's doc.go (or ` + "`--embedded-object-meta`" + `) gives it a schema: name, namespace, labels, annotations,
finalizers. The marker's other arguments are controller-gen's too: ` + "`allowDangerousTypes`, `maxDescLen`" + `; they hold for every command that generates.

### Size

Descriptions are most of a definition. ` + "`--max-description N`" + ` bounds each to N characters, cut at the end of a sentence where there is one; a negative N leaves
them all out. Beyond 1 MiB, which etcd hardly takes, descriptions are shortened by themselves, each to the same length, and a warning says so;
` + "`--max-size 262144`" + ` does so for what kubectl's client-side apply takes.

## Code

The shape of the code is that of Kubernetes' generators: who knows ` + "`clientset.ShopV1().Pizzas(ns).Get(…)`" + `, ` + "`factory.Shop().V1().Pizzas().Lister()`" + `,
` + "`SetDefaults_PizzaSpec`" + ` and ` + "`Convert_v1_Pizza_To_v2_Pizza`" + ` is at home. What is different, and why:

| | Kubernetes' generators | Kelson | because |
|---|---|---|---|
| limits of clients | 5 requests a second unless configured | none unless configured | servers limit, by priority and fairness |
| informers | client-go's | those of kelson.dev/operator | one watch per kind, smaller caches; what is asked for after Start runs at once |
| fake clientset | client-go's tracker | the same, with informers and discovery | for tests that have it; in new ones a real control plane in the process costs milliseconds, and says what a server says |
| expansion interfaces | empty interfaces to add methods to | not there | methods of one's own are functions, or ` + "`+genclient:method`" + ` |
| Extract functions of apply configurations | if an OpenAPI document of the types is given | always, by the schemas of the definitions | the servers that set the fields go by these |
| conversion that does not match | a comment in the code, which then does not compile | an error at the field, with the name of the function to write | one sees it where one can act |
| round-trip tests of conversions | by hand | generated | a lost field must not reach users |
| ConvertTo, ConvertFrom, Hub | by hand | generated | they only call what is there |
| OpenAPI of types of other packages | if these are named as inputs | what is referred to | a reference must lead somewhere |
| generic types | errors | written out where they are used | they are Go |
`)
	return b.Bytes()
}
