package clientset

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
)

// Defaulted is a configuration with what clients of all groups share: a user agent, and no limit of their own.
func Defaulted(c *rest.Config) *rest.Config {
	config := *c
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if config.RateLimiter == nil && config.QPS == 0 {
		config.QPS = -1
	}
	return &config
}

// REST makes the client of one version of a group.
func REST(c *rest.Config, h *http.Client, gv schema.GroupVersion, scheme *runtime.Scheme, codecs serializer.CodecFactory) (rest.Interface, error) {
	config := Defaulted(c)
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, codecs).WithoutConversion()
	return rest.RESTClientForConfigAndClient(config, h)
}

// Objects makes the client that informers read with.
func Objects(c *rest.Config, scheme *runtime.Scheme) (client.Client, error) {
	return client.New(client.Config{REST: c, Scheme: scheme})
}
