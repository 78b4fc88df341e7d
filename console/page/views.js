// @ts-check
// The views in the order of the navigation, and those that are tabs of an object.
import { Compare } from '../compare/compare.js';
import { History, HistoryObject } from '../history/history.js';
import { Now } from '../now/now.js';
import { Map } from '../ownership/map.js';
import { Plan } from '../plan/plan.js';
import { Reconcile } from '../reconcile/reconcile.js';
import { Rights } from '../rights/rights.js';
import { Timeline } from '../timeline/timeline.js';
import { Why, WhyObject } from '../why/why.js';

/** @type {{id: string, label: string, show: any}[]} */
export const views = [
  { id: 'now', label: 'Now', show: Now },
  { id: 'why', label: 'Why', show: Why },
  { id: 'timeline', label: 'Timeline', show: Timeline },
  { id: 'reconcile', label: 'Reconciles', show: Reconcile },
  { id: 'compare', label: 'Compare', show: Compare },
  { id: 'plan', label: 'Plan', show: Plan },
  { id: 'map', label: 'Map', show: Map },
  { id: 'history', label: 'History', show: History },
  { id: 'rights', label: 'Rights', show: Rights },
];

/** @type {Record<string, {label: string, show: any}>} */
export const objectViews = {
  why: { label: 'Why', show: WhyObject },
  history: { label: 'History', show: HistoryObject },
};
