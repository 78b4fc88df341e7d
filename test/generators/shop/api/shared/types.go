// Package shared has types that several versions use.
// +kubebuilder:object:generate=true
package shared

// Money is an amount of a currency.
type Money struct {
	// currency is the three-letter code of the currency.
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	Currency string `json:"currency"`
	// cents is the amount in cents.
	Cents int64 `json:"cents"`
}

// Limited is an optional value with a limit.
type Limited[T any] struct {
	// value is the value, if it is set.
	// +optional
	Value *T `json:"value,omitempty"`
	// limit is the maximum of the value.
	Limit T `json:"limit"`
}
