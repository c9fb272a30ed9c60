import { describeDevices, describeTerminals } from './output-faults.ts';

// The spec beside this file has the other format of each.
describeDevices('pretty');
describeTerminals('json');
