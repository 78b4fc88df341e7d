package plugins

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/plugin/pkg/admission/alwayspullimages"
	"k8s.io/kubernetes/plugin/pkg/admission/antiaffinity"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/approval"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/ctbattest"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/signing"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/subjectrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/eventratelimit"
	"k8s.io/kubernetes/plugin/pkg/admission/extendedresourcetoleration"
	"k8s.io/kubernetes/plugin/pkg/admission/gc"
	"k8s.io/kubernetes/plugin/pkg/admission/imagepolicy"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/namespace/autoprovision"
	"k8s.io/kubernetes/plugin/pkg/admission/namespace/exists"
	"k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass"
	"k8s.io/kubernetes/plugin/pkg/admission/network/denyserviceexternalips"
	"k8s.io/kubernetes/plugin/pkg/admission/nodedeclaredfeatures"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/nodetaint"
	"k8s.io/kubernetes/plugin/pkg/admission/podnodeselector"
	"k8s.io/kubernetes/plugin/pkg/admission/podresize"
	"k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/podtopologylabels"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/kubernetes/plugin/pkg/admission/scheduling/podgroupprotection"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageclass/setdefault"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection"

	"kelson.dev/apiserver/bounded"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// Config configures a plugin.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Transport passes requests to the control plane, as an administrator.
	Transport  http.RoundTripper
	Authorizer authorizer.Authorizer
	// Config is the plugin's own configuration; nil means none.
	Config []byte
}

// row is how to create an upstream plugin, and the resources that it handles, such as "pods" or
// "leases.coordination.k8s.io"; nil means all.
type row struct {
	register  func(*admission.Plugins)
	resources []string
}

// rows has the plugins by name.
var rows = map[string]row{
	autoprovision.PluginName:    {autoprovision.Register, nil},
	exists.PluginName:           {exists.Register, nil},
	antiaffinity.PluginName:     {antiaffinity.Register, pods},
	limitranger.PluginName:      {limitranger.Register, []string{"pods", "persistentvolumeclaims"}},
	serviceaccount.PluginName:   {serviceaccount.Register, pods},
	noderestriction.PluginName:  {noderestriction.Register, nil},
	nodetaint.PluginName:        {nodetaint.Register, []string{"nodes"}},
	alwayspullimages.PluginName: {alwayspullimages.Register, pods},
	imagepolicy.PluginName:      {imagepolicy.Register, pods},
	podnodeselector.PluginName:  {podnodeselector.Register, pods},
	priority.PluginName: {priority.Register,
		[]string{"pods", "priorityclasses.scheduling.k8s.io", "podgroups.scheduling.k8s.io",
			"compositepodgroups.scheduling.k8s.io"}},
	defaulttolerationseconds.PluginName:   {defaulttolerationseconds.Register, pods},
	podtolerationrestriction.PluginName:   {podtolerationrestriction.Register, pods},
	eventratelimit.PluginName:             {eventratelimit.Register, []string{"events", "events.events.k8s.io"}},
	extendedresourcetoleration.PluginName: {extendedresourcetoleration.Register, pods},
	setdefault.PluginName:                 {setdefault.Register, []string{"persistentvolumeclaims"}},
	storageobjectinuseprotection.PluginName: {storageobjectinuseprotection.Register,
		[]string{"persistentvolumeclaims", "persistentvolumes", "volumeattributesclasses.storage.k8s.io"}},
	podgroupprotection.PluginName:     {podgroupprotection.Register, []string{"podgroups.scheduling.k8s.io"}},
	gc.PluginName:                     {gc.Register, nil},
	resize.PluginName:                 {resize.Register, []string{"persistentvolumeclaims"}},
	runtimeclass.PluginName:           {runtimeclass.Register, pods},
	approval.PluginName:               {approval.Register, requests},
	signing.PluginName:                {signing.Register, requests},
	ctbattest.PluginName:              {ctbattest.Register, []string{"clustertrustbundles.certificates.k8s.io"}},
	subjectrestriction.PluginName:     {subjectrestriction.Register, requests},
	defaultingressclass.PluginName:    {defaultingressclass.Register, []string{"ingresses.networking.k8s.io"}},
	denyserviceexternalips.PluginName: {denyserviceexternalips.Register, []string{"services"}},
	podtopologylabels.PluginName:      {podtopologylabels.Register, pods},
	nodedeclaredfeatures.PluginName: {nodedeclaredfeatures.Register,
		[]string{"pods", "resourceslices.resource.k8s.io"}},
	podresize.PluginName: {podresize.Register, pods},
}

var (
	pods     = []string{"pods"}
	requests = []string{"certificatesigningrequests.certificates.k8s.io"}
)

// New creates a plugin by its name in --enable-admission-plugins. It returns an error if the name
// is unknown or the configuration is invalid.
func New(name string, cfg Config) (admission.Interface, error) {
	l, ok := rows[name]
	if !ok {
		return nil, fmt.Errorf("unknown admission plugin: %s", name)
	}
	var one admission.Plugins
	l.register(&one)
	var config io.Reader
	if cfg.Config != nil {
		config = bytes.NewReader(cfg.Config)
	}
	plugin, err := one.InitPlugin(name, config, initializer.New(
		client{store: cfg.Store, transport: cfg.Transport}, nil, factory{store: cfg.Store}, cfg.Authorizer,
		utilfeature.DefaultFeatureGate, nil, nil, mapper{registry: cfg.Registry},
	))
	if err != nil { // without the prefix, which the plugin chain adds, too
		return nil, errors.New(strings.TrimPrefix(err.Error(),
			fmt.Sprintf("couldn't init admission plugin %q: ", name)))
	}
	switch name {
	case serviceaccount.PluginName:
		plugin = newAccounts(cfg.Store, plugin)
	case imagepolicy.PluginName:
		if err := bounded.Inside(bounded.MaxResponse, plugin, "webhook", "RestClient", "Client"); err != nil {
			return nil, err
		}
	}
	return scopedTo(plugin, l.resources), nil
}

// scopedTo returns a plugin that is called only for the given resources.
func scopedTo(plugin admission.Interface, resources []string) admission.Interface {
	if resources == nil {
		return plugin
	}
	c := scoped{Interface: plugin}
	for _, name := range resources {
		c.resources = append(c.resources, schema.ParseGroupResource(name))
	}
	m, mutates := plugin.(admission.MutationInterface)
	v, validates := plugin.(admission.ValidationInterface)
	switch {
	case mutates && validates:
		return &both{mutating{c, m}, validating{c, v}}
	case mutates:
		return &mutating{c, m}
	}
	return &validating{c, v}
}
