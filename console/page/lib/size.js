// @ts-check
/** How much larger the browser's default font is than usual: the style sheet's sizes are in rem. */
export const enlarged = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
