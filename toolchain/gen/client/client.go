package client

import (
	"fmt"
	"path"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/model"
)

// Output has the import paths of generated packages: the clients, and the packages that they use.
type Output struct {
	// Base is the import path below which clientset, listers, informers and applyconfiguration lie.
	Base string
	// Header is a comment for every file.
	Header string
	// Apply adds the Apply methods to clients. It requires apply configurations.
	Apply bool
}

// Clientset is the import path of the package versioned.
func (o Output) Clientset() string { return o.Base + "/clientset/versioned" }

// Typed is the import path of the clients of a version.
func (o Output) Typed(v *model.ClientVersion) string {
	return o.Clientset() + "/typed/" + v.Group.Package + "/" + v.Name
}

// ApplyConfigurations is the import path of the package above all apply configurations.
func (o Output) ApplyConfigurations() string { return o.Base + "/applyconfiguration" }

// ApplyConfiguration is the import path of the apply configurations of a version.
func (o Output) ApplyConfiguration(v *model.ClientVersion) string {
	return o.ApplyConfigurations() + "/" + v.Group.Package + "/" + v.Name
}

// Lister is the import path of the listers of a version.
func (o Output) Lister(v *model.ClientVersion) string {
	return o.Base + "/listers/" + v.Group.Package + "/" + v.Name
}

// Informers is the import path of the informers' factory.
func (o Output) Informers() string { return o.Base + "/informers/externalversions" }

// File is a generated file. Its name consists of its package's import path and its base name.
type File struct {
	Name    string
	Content []byte
}

// Generate generates the clientset of groups.
func Generate(groups []*model.ClientGroup, out Output) ([]File, error) {
	g := &generator{out: out}
	g.clientset(groups)
	g.scheme(groups)
	g.fakeClientset(groups)
	for _, group := range groups {
		for _, v := range group.Versions {
			g.version(v)
			g.fakeVersion(v)
			for _, k := range v.Kinds {
				g.kind(k)
				g.fakeKind(k)
			}
		}
	}
	return g.files, g.err
}

type generator struct {
	out   Output
	files []File
	err   error
}

// add completes a file.
func (g *generator) add(f *source.File, name string) {
	data, err := f.Bytes(source.Options{Header: g.out.Header})
	if err != nil && g.err == nil {
		g.err = err
	}
	g.files = append(g.files, File{Name: path.Join(f.Path(), name), Content: data})
}

func (g *generator) clientset(groups []*model.ClientGroup) {
	f := source.New(g.out.Clientset(), "versioned")
	var accessors, fields, methods, fromConfig, fromREST strings.Builder
	for _, group := range groups {
		for _, v := range group.Versions {
			name := group.GoName + v.GoName
			typed := f.Use(g.out.Typed(v), v.Name, group.Package+v.Name)
			field := strings.ToLower(name[:1]) + name[1:]
			fmt.Fprintf(&accessors, "%s() %s.%sInterface\n", name, typed, name)
			fmt.Fprintf(&fields, "%s *%s.%sClient\n", field, typed, name)
			fmt.Fprintf(&methods, "\n// %s is the client of %s/%s.\nfunc (c *Clientset) %s() %s.%sInterface { return c.%s }\n",
				name, group.Name, v.Name, name, typed, name, field)
			fmt.Fprintf(&fromConfig, "if cs.%s, err = %s.NewForConfigAndClient(c, h); err != nil {\nreturn nil, err\n}\n", field, typed)
			fmt.Fprintf(&fromREST, "%s: %s.New(c),\n", field, typed)
		}
	}
	f.Expand(`// Interface has the methods of a Clientset.
type Interface interface {
	Discovery() $discovery.DiscoveryInterface
	// Client reads and writes objects of all the kinds. Informers use it.
	Client() $operatorclient.Client
	$accessors}

// Clientset has the clients of all groups and versions. It is safe for concurrent use.
type Clientset struct {
	discovery *$discovery.DiscoveryClient
	objects $operatorclient.Client
	$fields}

var _ Interface = (*Clientset)(nil)
$methods
// Discovery returns the discovery client.
func (c *Clientset) Discovery() $discovery.DiscoveryInterface { return c.discovery }

// Client reads and writes objects of all the kinds.
func (c *Clientset) Client() $operatorclient.Client { return c.objects }

// NewForConfig returns a Clientset. It does not contact the server.
func NewForConfig(c *$rest.Config) (*Clientset, error) {
	c = $clientset.Defaulted(c)
	h, err := $rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	return NewForConfigAndClient(c, h)
}

// NewForConfigAndClient returns a Clientset that uses the HTTP client instead of the transport settings of the configuration.
func NewForConfigAndClient(c *$rest.Config, h *$http.Client) (*Clientset, error) {
	c = $clientset.Defaulted(c)
	var cs Clientset
	var err error
	$fromConfig	if cs.discovery, err = $discovery.NewDiscoveryClientForConfigAndClient(c, h); err != nil {
		return nil, err
	}
	if cs.objects, err = $clientset.Objects(c, $scheme.Scheme); err != nil {
		return nil, err
	}
	return &cs, nil
}

// NewForConfigOrDie returns a Clientset. It panics if the configuration is invalid.
func NewForConfigOrDie(c *$rest.Config) *Clientset {
	cs, err := NewForConfig(c)
	if err != nil {
		panic(err)
	}
	return cs
}
`, source.Vars{"accessors": accessors.String(), "fields": fields.String(), "methods": methods.String(), "fromConfig": fromConfig.String(),
		"scheme": f.Use(g.out.Clientset()+"/scheme", "scheme", "scheme")})
	g.add(f, "clientset.go")
}

func (g *generator) scheme(groups []*model.ClientGroup) {
	f := source.New(g.out.Clientset()+"/scheme", "scheme")
	var adds strings.Builder
	for _, group := range groups {
		for _, v := range group.Versions {
			fmt.Fprintf(&adds, "%s.AddToScheme,\n", f.Use(v.Package.Path, v.Package.Name, group.Package+v.Name))
		}
	}
	f.Expand(`// Scheme has the types of the clients.
var Scheme = $runtime.NewScheme()

// Codecs encode and decode them.
var Codecs = $serializer.NewCodecFactory(Scheme)

// ParameterCodec encodes options as parameters of requests.
var ParameterCodec = $runtime.NewParameterCodec(Scheme)

var localSchemeBuilder = $runtime.SchemeBuilder{
	$adds}

// AddToScheme adds the types to another scheme.
var AddToScheme = localSchemeBuilder.AddToScheme

func init() {
	$metav1.AddToGroupVersion(Scheme, $schema.GroupVersion{Version: "v1"})
	$utilruntime.Must(AddToScheme(Scheme))
}
`, source.Vars{"adds": adds.String()})
	g.add(f, "register.go")
}

func (g *generator) version(v *model.ClientVersion) {
	name := v.Group.GoName + v.GoName
	f := source.New(g.out.Typed(v), v.Name)
	var getters, methods strings.Builder
	for _, k := range v.Kinds {
		fmt.Fprintf(&getters, "%sGetter\n", k.Plural)
		param, arg := "namespace string", "namespace"
		if !k.Namespaced {
			param, arg = "", `""`
		}
		fmt.Fprintf(&methods, "\n// %s is the client of %s.\nfunc (c *%sClient) %s(%s) %sInterface { return new%s(c, %s) }\n",
			k.Plural, k.Resource, name, k.Plural, param, k.Name, k.Plural, arg)
	}
	f.Expand(`// ${name}Interface is the client of $group/$version.
type ${name}Interface interface {
	RESTClient() $rest.Interface
	$getters}

// ${name}Client is the client of $group/$version.
type ${name}Client struct { restClient $rest.Interface }
$methods
// NewForConfig returns a client. It does not contact the server.
func NewForConfig(c *$rest.Config) (*${name}Client, error) {
	c = $clientset.Defaulted(c)
	h, err := $rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	return NewForConfigAndClient(c, h)
}

// NewForConfigAndClient returns a client that uses the HTTP client.
func NewForConfigAndClient(c *$rest.Config, h *$http.Client) (*${name}Client, error) {
	client, err := $clientset.REST(c, h, $schema.GroupVersion{Group: "$group", Version: "$version"}, $scheme.Scheme, $scheme.Codecs)
	if err != nil {
		return nil, err
	}
	return &${name}Client{client}, nil
}

// NewForConfigOrDie returns a client. It panics if the configuration is invalid.
func NewForConfigOrDie(c *$rest.Config) *${name}Client {
	client, err := NewForConfig(c)
	if err != nil {
		panic(err)
	}
	return client
}

// New returns a client that uses a REST client.
func New(c $rest.Interface) *${name}Client { return &${name}Client{c} }

// RESTClient returns the REST client of the requests.
func (c *${name}Client) RESTClient() $rest.Interface {
	if c == nil {
		return nil
	}
	return c.restClient
}
`, source.Vars{"name": name, "group": v.Group.Name, "version": v.Name, "getters": getters.String(), "methods": methods.String(),
		"scheme": f.Use(g.out.Clientset()+"/scheme", "scheme", "scheme")})
	g.add(f, v.Group.Package+"_client.go")
}
