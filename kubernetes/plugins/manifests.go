package plugins

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/initializer"
	policies "k8s.io/kubernetes/pkg/admission/plugin/policy/manifest/loader"
	webhooks "k8s.io/kubernetes/pkg/admission/plugin/webhook/manifest/loader"
)

// Manifests returns the functions that read webhooks and policies from folders, with Kubernetes'
// defaults and validation.
func Manifests() *initializer.ManifestLoaders {
	return &initializer.ManifestLoaders{
		LoadValidatingWebhookManifests: func(dir string) ([]*admissionregistrationv1.ValidatingWebhookConfiguration,
			string, error) {
			all, err := webhooks.LoadValidatingManifests(dir)
			if err != nil {
				return nil, "", err
			}
			return all.Configurations, all.Hash, nil
		},
		LoadMutatingWebhookManifests: func(dir string) ([]*admissionregistrationv1.MutatingWebhookConfiguration, string,
			error) {
			all, err := webhooks.LoadMutatingManifests(dir)
			if err != nil {
				return nil, "", err
			}
			return all.Configurations, all.Hash, nil
		},
		LoadValidatingPolicyManifests: func(dir string) ([]*admissionregistrationv1.ValidatingAdmissionPolicy,
			[]*admissionregistrationv1.ValidatingAdmissionPolicyBinding, string, error) {
			all, err := policies.LoadValidatingManifestsFromDirectory(dir)
			if err != nil {
				return nil, nil, "", err
			}
			return all.Policies, all.Bindings, all.Hash, nil
		},
		LoadMutatingPolicyManifests: func(dir string) ([]*admissionregistrationv1.MutatingAdmissionPolicy,
			[]*admissionregistrationv1.MutatingAdmissionPolicyBinding, string, error) {
			all, err := policies.LoadMutatingManifestsFromDirectory(dir)
			if err != nil {
				return nil, nil, "", err
			}
			return all.Policies, all.Bindings, all.Hash, nil
		},
	}
}
