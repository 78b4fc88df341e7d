package adopt

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"kelson.dev/toolchain"
	"kelson.dev/toolchain/marker"
)

// Arguments are parsed arguments of controller-gen.
type Arguments struct {
	Paths      []string
	Generators []string // the ones that Kelson also has
	// Skipped are arguments for generators, options and outputs that Kelson does not have.
	Skipped  []string
	Settings map[string]toolchain.Settings

	AllowFloats, EmbeddedObjectMeta bool
	// MaxDescription has the meaning of crd.Budget.PerField.
	MaxDescription int
}

// manifestGenerators are the generators whose output is not next to the types.
var manifestGenerators = []string{"crd", "rbac", "webhook"}

// arguments are the options of controller-gen, including those of versions since v0.2.
var arguments = marker.NewRegistry(definitions())

func definitions() []marker.Definition {
	text := func(names ...string) (args []marker.Arg) {
		for _, n := range names {
			args = append(args, marker.Arg{Name: n, Kind: marker.String, Optional: true})
		}
		return args
	}
	flag := func(names ...string) (args []marker.Arg) {
		for _, n := range names {
			args = append(args, marker.Arg{Name: n, Kind: marker.Bool, Optional: true})
		}
		return args
	}
	crd := append(text("headerFile", "year"), flag("allowDangerousTypes", "generateEmbeddedObjectMeta",
		"ignoreUnexportedFields", "omitToolVersion",
		"deprecatedV1beta1CompatibilityPreserveUnknownFields", "trivialVersions", "preserveUnknownFields")...)
	crd = append(crd, marker.Arg{Name: "maxDescLen", Kind: marker.Int, Optional: true},
		marker.Arg{Name: "crdVersions", Kind: marker.Strings, Optional: true})
	defs := []marker.Definition{
		{Name: "crd", Args: crd},
		{Name: "object", Args: text("headerFile", "year")},
		{Name: "rbac", Args: text("roleName", "fileName", "headerFile", "year")},
		{Name: "webhook", Args: text("headerFile", "year")},
		{Name: "applyconfiguration", Args: text("headerFile", "year")},
		{Name: "schemapatch", Args: append(text("manifests", "headerFile", "year"),
			marker.Arg{Name: "maxDescLen", Kind: marker.Int, Optional: true})},
		{Name: "paths", Value: marker.Strings},
	}
	for _, g := range []string{"", "crd:", "rbac:", "webhook:", "object:", "applyconfiguration:", "schemapatch:"} {
		defs = append(defs,
			marker.Definition{Name: "output:" + g + "dir", Value: marker.String},
			marker.Definition{Name: "output:" + g + "artifacts", Args: text("config", "code")},
			marker.Definition{Name: "output:" + g + "stdout"},
			marker.Definition{Name: "output:" + g + "none"})
	}
	for i := range defs {
		defs[i].On = marker.OnPackage
	}
	return defs
}

// Arguments parses the call's arguments.
func (c Call) Arguments() (Arguments, error) { return Parse(c.Args) }

// IsArgument reports whether an argument of kelson generate has the form of controller-gen's
// options, paths or outputs. The name of a generator, such as crd, does not.
func IsArgument(s string) bool {
	name, _, assigned := strings.Cut(s, "=")
	generator, _, options := strings.Cut(name, ":")
	return name == "paths" && assigned || strings.HasPrefix(name, "output:") ||
		assigned && (isGenerator(s) || options && (generator == "schemapatch" || hasGenerator(generator)))
}

// hasGenerator reports whether Kelson has a generator.
func hasGenerator(name string) bool {
	return slices.ContainsFunc(toolchain.Generators(), func(g toolchain.Generator) bool { return g.Name == name })
}

// isGenerator reports whether an argument names a generator that controller-gen and Kelson have
// with the same options.
func isGenerator(s string) bool {
	name, _, _ := strings.Cut(s, "=")
	return slices.Contains([]string{"crd", "object", "rbac", "webhook"}, strings.SplitN(name, ":", 2)[0])
}

// Parse parses arguments of controller-gen.
func Parse(args []string) (Arguments, error) {
	a := Arguments{Settings: map[string]toolchain.Settings{}}
	byDefault := ""
	outputs := map[string]string{}
	for _, text := range args {
		m, err := arguments.Parse(strings.TrimPrefix(text, "+"), marker.OnPackage)
		if m == nil {
			if name, _, _ := strings.Cut(text, ":"); hasGenerator(name) && !isGenerator(text) &&
				name != "applyconfiguration" {
				return a, fmt.Errorf("argument %q: generator %s has no options; name it alone", text, name)
			}
			if err == nil {
				err = fmt.Errorf("unknown option")
			}
			return a, fmt.Errorf("controller-gen argument %q: %w", text, err)
		}
		if rule, ok := strings.CutPrefix(m.Name, "output:"); ok {
			generator, form := "", rule
			if at := strings.IndexByte(rule, ':'); at >= 0 {
				generator, form = rule[:at], rule[at+1:]
			}
			to := m.Text()
			switch form {
			case "artifacts":
				to = m.String("config")
			case "stdout", "none":
				to = form
			}
			if generator == "" {
				byDefault = to
			} else {
				outputs[generator] = to
			}
			continue
		}
		switch m.Name {
		case "paths":
			paths, _ := m.Value.([]string)
			a.Paths = append(a.Paths, paths...)
		case "applyconfiguration", "schemapatch":
			a.Skipped = append(a.Skipped, text)
		default:
			a.generator(m)
		}
	}
	for _, g := range slices.Clone(a.Generators) {
		a.output(g, byDefault, outputs[g])
	}
	a.otherOutputs(byDefault, outputs)
	return a, nil
}

// Unsupported returns an error that names the skipped arguments and what kelson generate has
// instead, or nil.
func (a Arguments) Unsupported() error {
	var outputs []string
	var errs []error
	for _, s := range a.Skipped {
		switch name, options, _ := strings.Cut(strings.TrimPrefix(s, "+"), ":"); {
		case name == "output":
			outputs = append(outputs, s)
		case !hasGenerator(name):
			errs = append(errs, fmt.Errorf("kelson generate has no %s; its generator crd writes complete definitions",
				s))
		default:
			errs = append(errs, fmt.Errorf("kelson generate has no option %s for generator %s; name the generator alone (the header of its files is hack/boilerplate.go.txt)", options, name))
		}
	}
	if len(outputs) > 0 {
		errs = append(errs, fmt.Errorf("kelson generate has no %s; it has only output:dir=DIR and, for crd, rbac and webhook, output:GENERATOR:dir=DIR",
			strings.Join(outputs, ", ")))
	}
	return errors.Join(errs...)
}

// generator adds a generator with its options.
func (a *Arguments) generator(m *marker.Marker) {
	a.Generators = append(a.Generators, m.Name)
	set := toolchain.Settings{HeaderFile: m.String("headerFile"), Year: m.String("year"),
		RoleName: m.String("roleName"), FileName: m.String("fileName")}
	set.HeaderFile = cmp.Or(set.HeaderFile, "-")
	a.Settings[m.Name] = set
	if m.Name != "crd" {
		return
	}
	is := func(name string) bool { yes := m.Bool(name); return yes != nil && *yes }
	a.AllowFloats, a.EmbeddedObjectMeta = is("allowDangerousTypes"), is("generateEmbeddedObjectMeta")
	if m.Has("maxDescLen") {
		if a.MaxDescription = int(m.Int("maxDescLen")); a.MaxDescription == 0 {
			a.MaxDescription = -1
		} else if a.MaxDescription < 0 {
			a.MaxDescription = 0
		}
	}
}

// otherOutputs sets the folders of generators that are not among the arguments: the command line of
// kelson generate may name them separately.
func (a *Arguments) otherOutputs(byDefault string, outputs map[string]string) {
	alone := len(a.Settings) == 0
	for _, g := range manifestGenerators {
		if _, set := a.Settings[g]; !set && (outputs[g] != "" || alone && byDefault != "") {
			a.output(g, byDefault, outputs[g])
		}
	}
}

// output sets a generator's folder from the default output and its own.
func (a *Arguments) output(generator, byDefault, own string) {
	to := cmp.Or(own, byDefault)
	switch {
	case to == "stdout" || to == "none":
		a.Skipped = append(a.Skipped, "output:"+generator+":"+to)
		a.Generators = slices.DeleteFunc(a.Generators, func(g string) bool { return g == generator })
	case slices.Contains(manifestGenerators, generator):
		to = cmp.Or(to, "config/"+generator)
		set := a.Settings[generator]
		set.Output = filepath.ToSlash(to)
		a.Settings[generator] = set
	}
}

// Apply sets the options that the arguments name.
func (a Arguments) Apply(opts *toolchain.Options) {
	opts.Paths, opts.Generators, opts.Settings = a.Paths, a.Generators, a.Settings
	opts.AllowFloats = opts.AllowFloats || a.AllowFloats
	opts.EmbeddedObjectMeta = opts.EmbeddedObjectMeta || a.EmbeddedObjectMeta
	if a.MaxDescription != 0 {
		opts.Descriptions.PerField = a.MaxDescription
	}
}
