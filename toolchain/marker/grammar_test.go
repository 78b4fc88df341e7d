package marker

import (
	"encoding/json"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/similar"
)

// Examples of the grammar.
func TestParse(t *testing.T) {
	reg := Standard()
	for _, tc := range []struct {
		text string
		on   Target
		want string // the value, or the arguments, as JSON; or the error
	}{
		{`optional`, OnField, `null`},
		{`groupName=a.example.com`, OnPackage, `"a.example.com"`},
		{`groupName=`, OnPackage, `null`},
		{`kubebuilder:object:root=true`, OnType, `true`},
		{`kubebuilder:object:root:=true`, OnType, `true`},
		{`kubebuilder:metadata: labels="a=b"`, OnType, `{"labels":["a=b"]}`},
		{`kubebuilder:validation:Minimum=-1.5e3`, OnField, `-1500`},
		{`kubebuilder:validation:MinLength= 3 `, OnField, `3`},
		{"kubebuilder:validation:Pattern=`^[a-z]{1,2}$`", OnField, `"^[a-z]{1,2}$"`},
		{`kubebuilder:validation:Pattern="^\\d+$"`, OnField, `"^\\d+$"`},
		{`kubebuilder:validation:Pattern=^[a-z]+$`, OnType, `"^[a-z]+$"`},
		{`kubebuilder:validation:Enum=a;b c;"d;e"`, OnField, `["a","b c","d;e"]`},
		{`kubebuilder:validation:Enum=1;2`, OnField, `[1,2]`},
		{`kubebuilder:validation:Enum={a,"b,c"}`, OnField, `["a","b,c"]`},
		{`kubebuilder:validation:Enum="";a`, OnField, `["","a"]`},
		{`kubebuilder:default=3`, OnField, `3`},
		{`kubebuilder:default=-3`, OnField, `-3`},
		{`kubebuilder:default=1.50`, OnField, `1.5`},
		{`kubebuilder:default="3"`, OnField, `"3"`},
		{`kubebuilder:default=true`, OnField, `true`},
		{`kubebuilder:default=truer`, OnField, `"truer"`},
		{`kubebuilder:default=100Mi`, OnField, `"100Mi"`},
		{`kubebuilder:default=2024-01-15`, OnField, `"2024-01-15"`},
		{`kubebuilder:default=007`, OnField, `"007"`},
		{`kubebuilder:default=a:b`, OnField, `"a:b"`},
		{`kubebuilder:default={}`, OnField, `{}`},
		{`kubebuilder:default={{a: 1},{a: 2}}`, OnField, `[{"a":1},{"a":2}]`},
		{`kubebuilder:default={a: {b: {1, 2}}, "c d": x;y}`, OnField, `{"a":{"b":[1,2]},"c d":["x","y"]}`},
		{`kubebuilder:default={1 2}`, OnField, `["1 2"]`},
		{`default={"a": [1, "b"]}`, OnField, `{"a":[1,"b"]}`},
		{`default=ref(X)`, OnField, `null`},
		{`k8s:maxItems=3 # three`, OnField, `3`},
		{`k8s:required # always`, OnField, `null`},
		{`kubebuilder:resource`, OnType, `{}`},
		{`kubebuilder:resource:path=as,shortName=a;b,scope=Cluster`, OnType,
			`{"path":"as","scope":"Cluster","shortName":["a","b"]}`},
		{"kubebuilder:printcolumn:name=\"A B\", type=string ,JSONPath=`.a[?(@.b==\"c\")].d`,priority=1", OnType,
			`{"JSONPath":".a[?(@.b==\"c\")].d","name":"A B","priority":1,"type":"string"}`},
		{`kubebuilder:rbac:groups="",resources=pods;pods/log,verbs=get`, OnPackage,
			`{"groups":[""],"resources":["pods","pods/log"],"verbs":["get"]}`},
		{`kubebuilder:rbac:groups=,resources=pods,verbs=*`, OnPackage,
			`{"groups":[],"resources":["pods"],"verbs":["*"]}`},
		{`genclient:nonNamespaced`, OnType, `null`},
		{`k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object`, OnType,
			`"k8s.io/apimachinery/pkg/runtime.Object"`},
		{`k8s:unionMember(union: "a", memberName: "b")`, OnField, `{"memberName":"b","union":"a"}`},
		{`k8s:dependentRequired(other)`, OnField, `{"":"other"}`},
		{`k8s:alpha(since: "1.34")=+k8s:required`, OnField, `{"since":"1.34"}`},
		{`k8s:item(type: "a=b", n: 3)=+k8s:eachVal=+k8s:maxLength=63`, OnField, `{"n":"3","type":"a=b"}`},
		{`k8s:subfield(a)=+k8s:optional # remark`, OnType, `{"":"a"}`},
		{`k8s:openapi-gen=x-kubernetes-print-columns:custom-columns=A(b)`, OnType,
			`"x-kubernetes-print-columns:custom-columns=A(b)"`},
		{`patchStrategy=merge,retainKeys`, OnField, `"merge,retainKeys"`},
		{`oneOf=NodeSelection`, OnField, `"NodeSelection"`},
		{`zeroOrOneOf=ResourceSliceType`, OnField, `"ResourceSliceType"`},
		{`k8s:deprecated=state,protobuf=3`, OnField, `"state,protobuf=3"`},
		{`genclient:skipVerbs=get,list`, OnType, `"get,list"`},
		{`kubebuilder:scaffold:imports`, OnPackage, `""`},
		{`operator-sdk:csv:x=1`, OnField, ``},
		{`a sentence`, OnField, ``},

		{`optionl`, OnField, `unknown marker +optionl; did you mean +optional?`},
		{`Optional`, OnField, `unknown marker +Optional; did you mean`},
		{`kubebuilder:Minimum=1`, OnField, `unknown marker +kubebuilder:Minimum; did you mean +kubebuilder:validation:Minimum?`},
		{`kubebilder:validation:Pattern=x`, OnField, `did you mean +kubebuilder:validation:Pattern?`},
		{`wholly:other`, OnField, `unknown marker +wholly:other`},
		{`kubebuilder:rbac:groups=a,verbs=b`, OnField, `belongs on a package, not on a field`},
		{`kubebuilder:resource:pth=x`, OnType, `no argument "pth"; did you mean path?`},
		{`kubebuilder:resource:path=x,path=y`, OnType, `argument path twice`},
		{`kubebuilder:printcolumn:name=a`, OnType, `needs the argument type`},
		{`kubebuilder:validation:Minimum`, OnField, `needs a value: a number`},
		{`kubebuilder:validation:Minimum=`, OnField, `needs a value: a number`},
		{`kubebuilder:validation:Minimum=NaN`, OnField, `expected a number, got "NaN"`},
		{`kubebuilder:validation:MinLength=1.5`, OnField, `expected an integer, got "1.5"`},
		{`kubebuilder:object:root=yes`, OnType, `expected true or false, got "yes"`},
		{`kubebuilder:validation:Pattern="a`, OnField, `is not closed`},
		{`kubebuilder:validation:Pattern="\d"`, OnField, `invalid escape`},
		{`kubebuilder:validation:Pattern=a,b`, OnField, `unexpected ",b"`},
		{`kubebuilder:default={a: 1`, OnField, `not closed`},
		{`kubebuilder:default={1, 2`, OnField, `not closed`},
		{`default=x`, OnField, `expected JSON`},
		{`k8s:eachVal=maxLength`, OnField, `needs a marker as its value`},
		{`k8s:eachVal=+k8s:maxLenght=3`, OnField, `unknown marker +k8s:maxLenght; did you mean +k8s:maxLength?`},
		{`k8s:eachVal=+k8s:maxLength=x`, OnField, `expected an integer`},
		{`k8s:minLength=x`, OnField, `expected an integer`},
		{`k8s:eachVal`, OnField, `needs a value: a marker`},
		{`k8s:dependentRequired`, OnField, `needs an argument in parentheses`},
		{`k8s:alpha(sinc: "1")=+k8s:required`, OnField, `has no argument`},
		{`k8s:ifEnabled(a=+k8s:required`, OnField, `not closed`},
		{`k8s:unionMember(union: a, union: b)`, OnField, `twice`},
		{`kubebuilder:default:enabled=false`, OnField, `unexpected ":enabled" in the name`},
		{`kubebuilder:validation:Minimum:x=a`, OnField, `expected a number`},
		{`kubebuilder:validation:Minimum:x`, OnField, `unknown marker +kubebuilder:validation:Minimum:x`},
		{`kubebuilder:rbac:x:groups=a,verbs=b`, OnPackage, `unknown marker`},
		{`k8s:maxItems:x=3`, OnField, `unknown marker`},
		{`genclient:nonNamespace`, OnType, `did you mean +genclient:nonNamespaced?`},
		{`kubebuilder:webhook:pth=x`, OnPackage, `no argument "pth"; did you mean path?`},
		{`default=1 2`, OnField, `expected one JSON value`},
		{`optional=true`, OnField, `takes no value`},
		{`optional yes`, OnField, `unexpected "yes"`},
		{`kubebuilder:default=` + strings.Repeat("{", 1000), OnField, `nested more than`},
	} {
		m, err := reg.Parse(tc.text, tc.on)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case m == nil:
		case m.args != nil:
			data, _ := json.Marshal(m.args)
			got = string(data)
		default:
			data, _ := json.Marshal(m.Value)
			got = string(data)
		}
		if got != tc.want && (tc.want == "" || err == nil || !strings.Contains(got, tc.want)) {
			t.Errorf("+%s: got %s, want %s", tc.text, got, tc.want)
		}
	}
}

// A value below a name with one part too many has an effect in controller-gen, so it has one in
// projects whose mistakes are warnings.
func TestParseIgnoresLastPart(t *testing.T) {
	reg := Standard()
	for text, want := range map[string]any{
		`kubebuilder:default:enable_ingress=false`: false,
		`kubebuilder:validation:Maximum:is=3`:      3.0,
		`groupName:is=a.b`:                         "a.b",
	} {
		m, err := reg.Parse(text, Anywhere)
		if err == nil || m == nil || m.Value != want {
			t.Errorf("+%s: got %+v, %v, want %v and an error", text, m, err, want)
		}
	}
}

// FuzzParse checks that the parser returns a marker or an error for any comment.
func FuzzParse(f *testing.F) {
	reg := Standard()
	for _, seed := range []string{"optional", "kubebuilder:default={a: {b: {1, 2}}, \"c\": x;y}",
		"kubebuilder:validation:Enum=a;b;\"c\"",
		"kubebuilder:printcolumn:name=\"A\",type=string,JSONPath=`.a`", "default={\"a\":[1]}",
		"kubebuilder:rbac:groups=a;b,verbs={a,b}",
		"kubebuilder:default={{{", "kubebuilder:validation:Pattern=a`b", "k8s:maxItems=3 # x", "kubebuilder:example=-",
		"kubebuilder:title=;;",
		"k8s:item(a: \"b\", c: 1)=+k8s:eachVal=+k8s:maxLength=3", "k8s:ifEnabled(x", "k8s:subfield(`)`)=+optional"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, on := range []Target{OnPackage, OnType, OnField} {
			m, err := reg.Parse(text, on)
			if err != nil {
				if err.Error() == "" {
					t.Fatalf("%q: an empty error", text)
				}
				continue
			}
			if m == nil {
				continue
			}
			_, err = json.Marshal(m.Value)
			require.NoErrorf(t, err, "%q: %v cannot be written", text, m.Value)
		}
	})
}

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		assert.Equalf(t, similar.Distance(tc.a, tc.b), tc.want, "from %q to %q", tc.a, tc.b)
	}
}
