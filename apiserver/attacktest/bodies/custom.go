package bodies

import (
	"fmt"
	"strings"
)

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	bagGroup    = "attack.example.com"
)

// Definition returns a CustomResourceDefinition of a kind whose spec has a schema.
func Definition(kind, spec string) string {
	singular := strings.ToLower(kind)
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]ss.%[3]s"},`+
		`"spec":{"group":%[3]q,"scope":"Namespaced","names":{"plural":"%[1]ss","singular":%[1]q,"kind":%[2]q},`+
		`"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":%[4]s}}}}]}}`,
		singular, kind, bagGroup, spec)
}

func customPath(kind string) string {
	return "/apis/" + bagGroup + "/v1/namespaces/default/" + strings.ToLower(kind) + "s"
}

func customObject(kind, name, spec string) string {
	return Object(bagGroup+"/v1", kind, name, `"spec":`+spec)
}

// custom returns attacks with custom objects, and with definitions of them.
func (s scaled) custom() []Attack {
	attack := func(name, kind, schema, spec string) Attack {
		return Attack{Name: "custom: " + name, Admin: true,
			Setup:   []Request{create(definitions, Definition(kind, schema))},
			Request: create(customPath(kind)+"?dryRun=All", customObject(kind, "o", spec))}
	}
	definition := func(name, kind, schema string) Attack {
		return Attack{Name: "definition: " + name, Admin: true,
			Request: create(definitions+"?dryRun=All", Definition(kind, schema))}
	}
	const (
		open   = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
		object = `{"type":"object","properties":{"l":%s}}`
		text   = `{"type":"string"}`
		mapOf  = `{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"string"}}}}`
		setOf  = `{"type":"array","x-kubernetes-list-type":"set","items":%s}`
	)
	wide := Attack{Name: "custom: members, updated", Admin: true,
		Setup: []Request{create(definitions, Definition("Wide", open)),
			create(customPath("Wide"), customObject("Wide", "o", `{`+Fill(s.size(), `"k%d":1`)+`}`))},
		Request: patch(customPath("Wide")+"/o", Merge, `{"spec":{"k":2}}`)}
	elements := Attack{Name: "custom: keyed list, updated", Admin: true,
		Setup: []Request{create(definitions, Definition("Keyed", fmt.Sprintf(object, mapOf))),
			create(customPath("Keyed"), customObject("Keyed", "o", `{"l":[`+Fill(s.size(), `{"k":"%d"}`)+`]}`))},
		Request: patch(customPath("Keyed")+"/o", Merge, `{"spec":{"l":[`+Fill(s.size(), `{"k":"%d"}`)+`]}}`)}
	return []Attack{
		attack("members", "Open", open, `{`+Fill(s.size(), `"k%d":1`)+`}`),
		wide,
		attack("keyed list", "Map", fmt.Sprintf(object, mapOf), `{"l":[`+Fill(s.size(), `{"k":"%d"}`)+`]}`),
		elements,
		attack("set", "Set", fmt.Sprintf(object, fmt.Sprintf(setOf, text)), `{"l":[`+Fill(s.size(), `"%d"`)+`]}`),
		attack("set of lists", "Sets", fmt.Sprintf(object,
			fmt.Sprintf(setOf, `{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"integer"}}`)),
			`{"l":[`+Fill(s.size(), `[%d]`)+`]}`),
		attack("duplicates in a set", "Same", fmt.Sprintf(object, fmt.Sprintf(setOf, text)),
			`{"l":[`+Fill(s.size(), `""`)+`]}`),
		attack("enum", "Enum", fmt.Sprintf(object, `{"type":"array","items":{"type":"string","enum":`+
			List(s.n(10_000), `"%d"`)+`}}`), `{"l":[`+Fill(s.size()/8, `"x"`)+`]}`),
		attack("defaults", "Default", fmt.Sprintf(object,
			`{"type":"array","items":{"type":"object","properties":{"d":{"type":"string","default":"d"}}}}`),
			`{"l":[`+Fill(s.size(), `{}`)+`]}`),
		attack("pattern", "Pattern", fmt.Sprintf(object, `{"type":"string","pattern":"(x?){500}(x?){500}y$"}`),
			`{"l":"`+strings.Repeat("x", s.n(1<<20))+`"}`),
		attack("wrong types", "Wrong", fmt.Sprintf(object, `{"type":"array","items":{"type":"string"}}`),
			`{"l":[`+Fill(s.size(), `1`)+`]}`),
		attack("unknown fields", "Pruned", `{"type":"object"}`, `{`+Fill(s.size(), `"k%d":1`)+`}`),
		attack("deep", "Deep", open, Nested(s.n(9_000), "1")),
		attack("rules of CEL", "Ruled", fmt.Sprintf(object,
			`{"type":"array","maxItems":1000,"items":{"type":"integer"},"x-kubernetes-validations":[{"rule":"self.all(x, self.exists(y, x == y))"}]}`),
			`{"l":`+List(s.n(1_000), `%d`)+`}`),
		definition("rules of CEL", "Rules", `{"type":"object","x-kubernetes-validations":[`+
			Fill(s.size(), `{"rule":"true"}`)+`]}`),
		definition("patterns", "Patterns", `{"type":"object","properties":{`+
			Fill(s.size(), `"p%d":{"type":"string","pattern":"^(a{1,100}){1,9}$"}`)+`}}`),
		definition("properties", "Properties", `{"type":"object","properties":{`+
			Fill(s.size(), `"p%d":{"type":"string"}`)+`}}`),
		definition("enum", "Enums", `{"type":"string","enum":[`+Fill(s.size(), `"%d"`)+`]}`),
		definition("equal enum", "Equals", `{"type":"string","enum":[`+Fill(s.size(), `""`)+`]}`),
		definition("deep", "Depth", strings.Repeat(`{"type":"object","properties":{"a":`, s.n(3_000))+
			`{"type":"string"}`+strings.Repeat("}}", s.n(3_000))),
		definition("required", "Required", `{"type":"object","required":[`+Fill(s.size(), `"r%d"`)+`]}`),
		definition("defaults", "Defaults", `{"type":"object","default":{},"properties":{`+
			Fill(s.size(), `"p%d":{"type":"string","default":""}`)+`}}`),
		definition("anyOf", "Any", `{"type":"object","anyOf":[`+Fill(s.size(), `{}`)+`]}`),
	}
}
