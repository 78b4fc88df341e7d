package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kelson.dev/test/generators/shop/api/shared"
)

// Size is the size of a pizza.
// +kubebuilder:validation:Enum=Small;Large
// +enum
type Size string

// Sizes of pizzas.
const (
	// Small is for one person.
	Small Size = "Small"
	// Large is for two persons.
	Large Size = "Large"
)

// Topping is one topping of a pizza.
type Topping struct {
	// name is the name of the topping.
	Name string `json:"name"`
	// grams is the weight of the topping in grams.
	// +default=30
	// +optional
	Grams int32 `json:"grams,omitempty"`
	// notes has notes about the topping, by subject.
	// +optional
	Notes map[string]string `json:"notes,omitempty"`
}

// Baking describes how a pizza is baked. Other types embed it.
type Baking struct {
	// degrees is the temperature of the oven in degrees Celsius.
	// +default=250
	// +optional
	Degrees *int32 `json:"degrees,omitempty"`
	// duration is the time in the oven.
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// PizzaSpec is the desired state of a Pizza.
type PizzaSpec struct {
	Baking `json:",inline"`

	// size is the size of the pizza.
	// +default="Large"
	// +optional
	Size Size `json:"size,omitempty"`
	// toppings lists the toppings, each with a different name.
	// +listType=map
	// +listMapKey=name
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +optional
	Toppings []Topping `json:"toppings,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// price is the price of the pizza.
	// +optional
	Price *shared.Money `json:"price,omitempty"`
	// slices is the number of slices, and its maximum.
	// +optional
	Slices shared.Limited[int32] `json:"slices,omitempty"`
	// weight is the weight of the dough.
	// +optional
	Weight *resource.Quantity `json:"weight,omitempty"`
	// door is the number or the name of the door for the delivery.
	// +optional
	Door *intstr.IntOrString `json:"door,omitempty"`
	// address refers to the object with the customer's address.
	// +optional
	Address *corev1.LocalObjectReference `json:"address,omitempty"`
	// tolerations lists the customer's tolerations.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// selector selects the cooks.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// matrix has the positions of the olives.
	// +optional
	Matrix [][]int32 `json:"matrix,omitempty"`
	// seal is the seal of the box.
	// +optional
	Seal []byte `json:"seal,omitempty"`
	// prices lists the prices by size.
	// +optional
	Prices map[Size]shared.Money `json:"prices,omitempty"`
}

// PizzaStatus is the observed state of a Pizza.
type PizzaStatus struct {
	// conditions are the conditions of the pizza.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// bakedAt is the time at which the pizza was taken from the oven.
	// +optional
	BakedAt *metav1.Time `json:"bakedAt,omitempty"`
	// slices is the current number of slices.
	// +optional
	Slices int32 `json:"slices,omitempty"`
}

// Pizza is the order of a pizza.
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.slices.limit,statuspath=.status.slices
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name=Size,type=string,JSONPath=`.spec.size`
type Pizza struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec PizzaSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status PizzaStatus `json:"status,omitempty"`
}

// PizzaList is a list of Pizzas.
// +kubebuilder:object:root=true
type PizzaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pizza `json:"items"`
}

// OvenSpec is the desired state of an Oven.
type OvenSpec struct {
	// heat is the maximum heat.
	// +default={"degrees": 300}
	// +optional
	Heat *Baking `json:"heat,omitempty"`
}

// Oven is an oven of the shop.
// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=get,list,watch,create,delete
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type Oven struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec OvenSpec `json:"spec,omitempty"`
}

// OvenList is a list of Ovens.
// +kubebuilder:object:root=true
type OvenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Oven `json:"items"`
}
