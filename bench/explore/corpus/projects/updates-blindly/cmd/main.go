// Command main is the operator updates-blindly of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("updates-blindly") }
