package clientset

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
)

// Defaulted returns a copy of a configuration with defaults for the clients of all groups: a user
// agent, and no rate limit.
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

// REST returns the client of one group version.
func REST(c *rest.Config, h *http.Client, gv schema.GroupVersion, scheme *runtime.Scheme,
	codecs serializer.CodecFactory) (rest.Interface, error) {
	config := Defaulted(c)
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, codecs).WithoutConversion()
	return rest.RESTClientForConfigAndClient(config, h)
}

// Objects returns the client that informers use.
func Objects(c *rest.Config, scheme *runtime.Scheme) (client.Client, error) {
	return client.New(client.Config{REST: c, Scheme: scheme})
}
